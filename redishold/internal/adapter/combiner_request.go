package adapter

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/redishold"
)

// request is one call of a Combiner. Its caller uses the request until it has the result. The
// queue or a batch uses the request until it is detached. The last of these users returns the
// request to the pool.
type request struct {
	combiner *Combiner
	finish   func() redishold.Result // the method `wait`, stored so that Begin does not allocate
	done     chan struct{}           // gets one value when the field result is set, and has room for it

	call     redishold.Call
	ctx      context.Context
	ctxDone  <-chan struct{} // the Done channel of ctx, or of the parent of ctx if ctx is a deadline.Context
	deadline time.Time       // when the alarm ends the call, if ctx is a deadline.Context; otherwise zero

	// Guarded by the Combiner's mutex. After a receive from the channel done, the caller may
	// read the fields result and late without the mutex.
	batch    *batch // nil while the request is queued
	decided  bool   // the outcome is decided
	late     bool   // decided by giveUp, so the call may still be in flight
	left     bool   // the caller does not use the request any more
	detached bool   // the queue and the batch do not use the request any more
	result   redishold.Result
}

// wait returns the outcome of the call. The caller must not use the request after it.
func (r *request) wait() redishold.Result {
	select {
	case <-r.done:
	case <-r.ctxDone:
		suspect := r.combiner.suspect
		if err := r.leave(); err != nil {
			if suspect != nil {
				suspect()
			}
			return redishold.Result{Err: err}
		}
		<-r.done // the call has an outcome, which says more than the end of ctx; the channel has its value by now, or gets it at once
	}
	return r.outcome()
}

func (r *request) outcome() redishold.Result {
	result, ctx := r.result, r.ctx
	if r.late {
		r.combiner.mu.Lock()
		defer r.combiner.mu.Unlock()
		r.left = true
		if r.detached {
			r.free()
		}
		return result
	}
	r.free()
	if result.Err != nil && code(result.Err) == "" {
		result.Err = Classify(ctx, result.Err, false) // an error that means "not sent" still means that afterwards
	}
	return result
}

// leave ends the request because its context has ended, and returns the error of the call.
// It returns nil if the call has an outcome.
func (r *request) leave() error {
	c := r.combiner
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.decided {
		return nil
	}
	r.decided, r.left = true, true
	return r.abandon(endOf(r.ctx))
}

// endOf returns the error of the ended context ctx. It never returns nil, because a nil error
// of the method leave means that the call has an outcome. The parent of a deadline.Context ends
// a moment before the deadline.Context does.
func endOf(ctx context.Context) error {
	var parent error
	if d, ok := ctx.(*deadline.Context); ok {
		parent = d.Parent().Err()
	}
	return cmp.Or(ctx.Err(), parent, context.Canceled)
}

// abandon records that no caller waits for the request any more, and returns the error for
// its caller.
func (r *request) abandon(end error) error {
	if r.batch == nil {
		return NotSent(end) // the request is still queued, and a leader drops decided requests
	}
	r.batch.abandon()
	return end
}

// giveUp ends the call before its reply. The Combiner's mutex is held.
func (r *request) giveUp(end error) {
	r.decided, r.late = true, true
	r.result.Err = r.abandon(end)
}

// detach records that the queue or the batch does not use the request any more. The
// Combiner's mutex is held.
func (r *request) detach() {
	r.detached = true
	if r.left {
		r.free()
	}
}

func (r *request) free() {
	*r = request{combiner: r.combiner, finish: r.finish, done: r.done}
	r.combiner.requests.Put(r)
}

// wake signals the callers of requests that their outcomes are decided.
func wake(requests []*request) {
	for _, r := range requests {
		r.done <- struct{}{}
	}
}
