package redishold

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// commit returns the call, and moves buf behind the keys and arguments of the call, so that the
// next call begins there. The caller has built the slices of the call in the room of buf. If
// that room was too small, the slices of the call are new, and buf then has the free room of
// these new slices.
func commit(buf *kinds.Buffers, call Call) Call {
	buf.Keys, buf.Args = call.Keys[len(call.Keys):], call.Args[len(call.Args):]
	call.Keys, call.Args = slices.Clip(call.Keys), slices.Clip(call.Args)
	return call
}

// callsFor returns n calls; the function `call` returns the one with the index i. All calls
// share two slices, which have room for the given numbers of keys and arguments of each call.
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

// isAnswer reports whether r is a reply of the server. After any other error the Conn may
// still read the keys and arguments of the call. An error that only wraps a ReplyError does
// not count, because that reply may be for another call.
func isAnswer(r Result) bool {
	_, replied := r.Err.(*ReplyError) //nolint:errorlint // see above
	return r.Err == nil || replied
}
