package driver

import "context"

// Releaser is implemented by a Backend that releases in two steps, and learns who
// else may be waiting.
type Releaser interface {
	// BeginRelease is Release, but returns as soon as the call is on its way: a Try
	// of the same name that is made after that arrives later, as far as the client
	// can have it so. finish waits for the answer as Release does; it must be
	// called, and only once. others is how many other clients heard of the release
	// and may be waiting for it, -1 if that is not known.
	BeginRelease(ctx context.Context, c Claim) (finish func() (others int, err error))
}

// ReleaseCounter is implemented by a Backend that learns with a Release who else may
// be waiting.
type ReleaseCounter interface {
	// ReleaseCounted is Release, and returns others as Releaser has it.
	ReleaseCounted(ctx context.Context, c Claim) (others int, err error)
}
