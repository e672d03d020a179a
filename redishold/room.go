package redishold

import "context"

// room is where a call's keys and arguments go: slices of length 0 that a caller
// uses again, or none.
type room struct{ keys, args []string }

// cut takes off room for one of many calls that travel together. A call that needs
// more gets slices of its own.
func (r *room) cut(keys, args int) room {
	to := room{keys: r.keys[:0:keys], args: r.args[:0:args]}
	r.keys, r.args = r.keys[keys:], r.args[args:]
	return to
}

// errand is one call on its way, and room for what no kind of lock exceeds.
type errand struct {
	call Call
	keys [6]string
	args [10]string
}

func (e *errand) room() room { return room{keys: e.keys[:0], args: e.args[:0]} }

// run runs e.call, and gives e back for other calls once the Conn has let go of
// it. The caller must not touch e afterwards.
func (b *Backend) run(ctx context.Context, e *errand) Result {
	var result Result
	if b.single != nil {
		result = b.single.DoOne(ctx, &e.call)
	} else {
		result = b.do(ctx, e.call)[0]
	}
	b.settle(e, result)
	return result
}

// settle gives e back if result is the server's answer to it. After any other
// error the Conn may still look at the keys and arguments.
func (b *Backend) settle(e *errand, result Result) {
	if isAnswer(result) {
		b.errands.Put(e)
	}
}

// isAnswer reports that r came from the server. An error that only wraps the
// server's words does not count: it may be about another call.
func isAnswer(r Result) bool {
	_, replied := r.Err.(*ReplyError) //nolint:errorlint // see above
	return r.Err == nil || replied
}

// errand returns one whose call is empty.
func (b *Backend) errand() *errand {
	if e, ok := b.errands.Get().(*errand); ok {
		e.call = Call{}
		return e
	}
	return &errand{}
}
