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

// batchBuf is the memory for one TryAll, Renew or ReleaseAll. Its slices grow when that is
// needed.
type batchBuf struct {
	at      []int    // the indices of the claims for which there is a call
	tries   []try    // the tries of these claims; only for TryAll
	calls   []Call   // a call for each of these claims
	results []Result // the results of `calls`
	own     kinds.Buffers

	indices []int
	groups  [][]int // see Backend.group; each group is a part of `indices`
	sent    []Call  // a call for each group
	one     [1]Result
	shared  kinds.Buffers
}

// fill sets m.calls to a call for each claim, and gets the call with the index i from the
// function `call`. All calls share two slices, which have room for the given numbers of keys and
// arguments of each call.
func (m *batchBuf) fill(keys, args int, call func(buf kinds.Buffers, i int) wire.Call) {
	buf := grown(&m.own, len(m.at)*keys, len(m.at)*args)
	m.calls = m.calls[:0]
	for i := range m.at {
		m.calls = append(m.calls, commit(&buf, Call(call(buf, i))))
	}
}

// grown makes room in buf for the given numbers of keys and arguments, and returns buf.
func grown(buf *kinds.Buffers, keys, args int) kinds.Buffers {
	buf.Keys, buf.Args = slices.Grow(buf.Keys[:0], keys), slices.Grow(buf.Args[:0], args)
	return *buf
}

func (b *Backend) newBatchBuf() *batchBuf {
	m := b.batchBufs.Get().(*batchBuf)
	m.at, m.tries = m.at[:0], m.tries[:0]
	return m
}

// recycle returns m to its pool, if the Conn does not read the calls in m any more.
func (b *Backend) recycle(m *batchBuf) {
	if !slices.ContainsFunc(m.results, func(r Result) bool { return !isAnswer(r) }) {
		b.batchBufs.Put(m)
	}
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
