package driver

import "context"

// Notifier is implemented by a Backend that hears early that a grant may be over.
type Notifier interface {
	// Notify calls hint with the Claim.Seq of a grant of client, a Claim.Client, that
	// may be over: somebody has ended it by force. Where all claims of the client may
	// be over at once, since its session is, it calls hint with 0, once for all of
	// them. Notify goes on until ctx ends, and then returns ctx's error. It returns
	// another one if it cannot listen: ErrRefused or errors.ErrUnsupported where it
	// never will.
	//
	// A hint proves nothing, may be wrong, may come twice and may be missing: the next
	// Renew says what is so. hint does not block, and may be called from several
	// goroutines at once.
	Notify(ctx context.Context, client string, hint func(seq uint64)) error
}
