package driver

import "context"

// Releaser is implemented by a Backend that releases in two steps, and learns who
// else may be waiting.
type Releaser interface {
	// StartRelease is Release, but returns as soon as the call is on its way. finish
	// waits for the answer as Release does; it must be called, and only once. others
	// is how many other clients heard of the release and may be waiting for it, -1 if
	// that is not known.
	//
	// No order is promised: a Try of the same name that is made after StartRelease
	// arrives later as far as the client can have it so. One that arrives before is
	// refused, and its Wait returns with the release.
	StartRelease(ctx context.Context, c Claim) (finish func() (others int, err error))
}
