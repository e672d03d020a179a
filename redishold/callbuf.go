package redishold

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// commit returns the call, and sets buf to the free room behind the keys and arguments of the
// call, for the next call. The caller has appended these keys and arguments to the slices of
// buf. If the room in buf was too small, the slices of the call are new. In that case buf gets
// the free room of the new slices.
func commit(buf *kinds.Buffers, call Call) Call {
	buf.Keys, buf.Args = call.Keys[len(call.Keys):], call.Args[len(call.Args):]
	call.Keys, call.Args = slices.Clip(call.Keys), slices.Clip(call.Args)
	return call
}

// callsFor returns n calls. It gets the call with the index i from the function `call`. All
// calls share two slices, which have room for the given numbers of keys and arguments of each
// call.
func callsFor(n, keys, args int, call func(buf kinds.Buffers, i int) wire.Call) []Call {
	buf := kinds.Buffers{Keys: make([]string, 0, n*keys), Args: make([]string, 0, n*args)}
	calls := make([]Call, n)
	for i := range calls {
		calls[i] = commit(&buf, Call(call(buf, i)))
	}
	return calls
}

// callBuf is one call in flight, with enough room for a call of any kind of lock.
type callBuf struct {
	call Call
	keys [6]string
	args [10]string
}

func (e *callBuf) buffers() kinds.Buffers { return kinds.Buffers{Keys: e.keys[:0], Args: e.args[:0]} }

func (b *Backend) one(ctx context.Context, call *Call) Result {
	if b.single != nil {
		return b.single.DoOne(ctx, call)
	}
	return b.do(ctx, *call)[0]
}

// isAnswer reports whether r is a reply of the server: a value or an error reply. If it is not,
// the Conn may still read the keys and arguments of the call, so the caller must not reuse them.
// An error that only wraps a *ReplyError does not count as a reply, because that reply may be
// for another call.
func isAnswer(r Result) bool {
	_, replied := r.Err.(*ReplyError) //nolint:errorlint // see above
	return r.Err == nil || replied
}
