package driver

import "context"

// Notifier is implemented by a Backend that hears early that a grant may be over.
type Notifier interface {
	// Notify calls hint with the Claim.Owner of a grant that somebody has broken,
	// of those whose owners begin with client, until ctx ends; it then returns
	// ctx's error, and another one if it cannot listen. A hint proves nothing, may
	// be wrong, and may be missing; Renew tells. hint does not block.
	Notify(ctx context.Context, client string, hint func(owner string)) error
}
