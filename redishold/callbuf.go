package redishold

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// took returns call, which lies in to, and goes on behind it. A call that needed more
// than there was has slices of its own, of which the next gets what is left.
func commit(to *kinds.Buffers, call Call) Call {
	to.Keys, to.Args = call.Keys[len(call.Keys):], call.Args[len(call.Args):]
	call.Keys, call.Args = slices.Clip(call.Keys), slices.Clip(call.Args)
	return call
}

// callsFor returns n calls, for each of which there is room for so many keys and
// arguments.
func callsFor(n, keys, args int, call func(to kinds.Buffers, i int) wire.Call) []Call {
	to := kinds.Buffers{Keys: make([]string, 0, n*keys), Args: make([]string, 0, n*args)}
	calls := make([]Call, n)
	for i := range calls {
		calls[i] = commit(&to, Call(call(to, i)))
	}
	return calls
}

// callBuf is one call on its way, and room for what no kind of lock exceeds.
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

// isAnswer reports that r came from the server: after any other error the Conn may still
// look at the keys and arguments of the call. An error that only wraps the
// server's words does not count: it may be about another call.
func isAnswer(r Result) bool {
	_, replied := r.Err.(*ReplyError) //nolint:errorlint // see above
	return r.Err == nil || replied
}
