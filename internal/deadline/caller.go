package deadline

import (
	"context"
	"time"
)

// callerKey is the key of a context's caller.
type callerKey struct{}

// Apart returns a context that does not end, with the values of caller. A call under it
// outlives a caller that gives up, if it was sent by then: see Caller.
func Apart(caller context.Context) context.Context { return apart{caller} }

// Caller returns the context of the caller that a call is made for, under a context of
// Apart, and else ctx. When it has ended, what was not sent yet need not be sent.
func Caller(ctx context.Context) context.Context {
	if caller, ok := ctx.Value(callerKey{}).(context.Context); ok {
		return caller
	}
	return ctx
}

type apart struct{ caller context.Context }

func (apart) Deadline() (time.Time, bool) { return time.Time{}, false }
func (apart) Done() <-chan struct{}       { return nil }
func (apart) Err() error                  { return nil }

func (a apart) Value(key any) any {
	if key == (callerKey{}) {
		return a.caller
	}
	return a.caller.Value(key)
}
