package deadline

import "context"

// callerKey is the key for which a detached context returns the context of the caller.
type callerKey struct{}

// Detach returns a context that does not end, and that has the values of the context `caller`.
// If the caller gives up, a call that was sent under the new context goes on. A call that is
// still unsent then need not be sent: see Caller.
func Detach(caller context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(caller), callerKey{}, caller)
}

// Caller returns the context that was given to Detach, if ctx is derived from a detached
// context. Otherwise it returns ctx. A call that is still unsent when the returned context ends
// need not be sent.
func Caller(ctx context.Context) context.Context {
	if caller, ok := ctx.Value(callerKey{}).(context.Context); ok {
		return caller
	}
	return ctx
}
