package adapter

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// End has the reason why a client takes no calls any more: usually the program has closed
// it.
type End struct {
	Closed error    // the error that the library returns for a closed client, and sometimes for an open one
	Server Question // asks any server of the client

	reason atomic.Pointer[error]
}

// Refuse returns nil as long as the client takes calls. Afterwards it returns the error that
// every call has to return.
func (e *End) Refuse() error {
	if reason := e.reason.Load(); reason != nil {
		return *reason
	}
	return nil
}

// Because ends the client: from now on, Refuse returns the error `reason`.
func (e *End) Because(reason error) { e.reason.Store(&reason) }

// Close records that the program has closed the client.
func (e *End) Close() { e.Because(&closedError{e.Closed}) }

// Notice finds out from results whether the program has closed the client. A result with the
// error e.Closed is no proof of that: a call in flight also gets this error if its node has
// left the cluster or is not the master any more. Such a call may have been executed. So Notice
// sends a PING. If the PING also gets the error e.Closed, the client is closed.
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
	return e.cause.Error() + ": close the client only after the last lock is unlocked and Drain has returned"
}

// Unwrap returns the cause, and the errors of package driver that say what the cause means for
// a lock.
func (e *closedError) Unwrap() []error {
	return []error{e.cause, driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted}
}
