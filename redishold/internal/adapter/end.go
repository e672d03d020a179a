package adapter

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// End knows why a client takes no calls any more: mostly because the program has
// closed it.
type End struct {
	Closed error    // what the library answers of a closed client, and now and then of another
	Server Question // any

	reason atomic.Pointer[error]
}

// Refuse returns why no call can be made, nil if none is known.
func (e *End) Refuse() error {
	if reason := e.reason.Load(); reason != nil {
		return *reason
	}
	return nil
}

// Because ends the client for good.
func (e *End) Because(reason error) { e.reason.Store(&reason) }

// Close notes that the program has closed the client.
func (e *End) Close() { e.Because(&closedError{e.Closed}) }

// Notice finds out from results that the program has closed the client. An error alone
// does not say so, nor that nothing was sent: it is also the answer to a call that was
// under way, or whose node has left the cluster or is no longer the master. But a
// client that answers so to the next command as well is closed.
func (e *End) Notice(ctx context.Context, results []redishold.Result) {
	closed := func(r redishold.Result) bool { return errors.Is(r.Err, e.Closed) }
	if !slices.ContainsFunc(results, closed) || e.Refuse() != nil {
		return
	}
	if closed(Answer(ctx, func() redishold.Result { return e.Server(ctx, "PING") })) {
		e.Close()
	}
}

type closedError struct{ cause error }

func (e *closedError) Error() string {
	return e.cause.Error() + ": locks need the client until the last of them is unlocked and Drain has returned"
}

// Unwrap returns the cause, and what it means for a lock.
func (e *closedError) Unwrap() []error {
	return []error{e.cause, driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted}
}
