package adapter

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
)

// request is one call of a Combiner. The request has two users: the caller, until the caller
// has the result, and the queue or a batch, until the call of detach. The user that leaves last
// returns the request to the pool.
type request struct {
	combiner *Combiner
	finish   func() redishold.Result // the method `wait`, stored so that Begin does not allocate
	done     chan struct{}           // has room for one value, and gets it when the field `result` is set

	call     redishold.Call
	ctx      context.Context
	ctxDone  <-chan struct{} // the Done channel of ctx, or of the parent of ctx if ctx is a deadline.Context
	deadline time.Time       // when the alarm ends the call, if ctx is a deadline.Context; otherwise zero

	// Guarded by the Combiner's mutex. After a receive from the channel `done`, the caller may
	// read the fields `result` and `late` without the mutex.
	batch    *batch // nil while the request is queued
	decided  bool   // the outcome is decided
	late     bool   // giveUp has decided the outcome, so the call may still be in flight
	left     bool   // the caller does not use the request any more
	detached bool   // the queue and the batch do not use the request any more
	result   redishold.Result
}

// wait returns the outcome of the call. Afterwards the caller must not use the request any
// more.
func (r *request) wait() redishold.Result {
	c, ctx := r.combiner, r.ctx
	select {
	case <-r.done:
	case <-r.ctxDone:
		if err := r.leave(); err != nil {
			return c.report(ctx, redishold.Result{Err: err})
		}
		<-r.done // the call has an outcome, which says more than the end of ctx. The channel `done` has its value by now, or gets it at once
	}
	return r.outcome()
}

// outcome is the method wait, for a request whose channel `done` has had its value.
func (r *request) outcome() redishold.Result {
	c, ctx, result, late := r.combiner, r.ctx, r.result, r.late
	if late {
		c.mu.Lock()
		if r.left = true; r.detached {
			r.free()
		}
		c.mu.Unlock()
	} else {
		r.free()
	}
	if result.Err != nil && !late && code(result.Err) == "" {
		result.Err = Classify(ctx, result.Err, false) // an error that means "not sent" keeps that meaning
	}
	return c.report(ctx, result)
}

// report returns the outcome of a call, after `failed` has got it if it is an error.
func (c *Combiner) report(ctx context.Context, result redishold.Result) redishold.Result {
	if result.Err == nil || c.failed == nil {
		return result
	}
	results := []redishold.Result{result}
	c.failed(ctx, results)
	return results[0]
}

// leave ends the request because its context has ended, and returns the error of the call. If
// the call already has an outcome, leave changes nothing and returns nil.
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

// endOf returns the error of the ended context ctx. It never returns nil, because the method
// leave returns nil only for a call that has an outcome. If ctx is a deadline.Context, only its
// parent may have ended yet: the parent ends a moment earlier.
func endOf(ctx context.Context) error {
	var parent error
	if d, ok := ctx.(*deadline.Context); ok {
		parent = d.Parent().Err()
	}
	return cmp.Or(ctx.Err(), parent, context.Canceled)
}

// abandon records that the caller does not wait for the request any more. It returns the error
// for that caller: `end`, which also means "not sent" if the request is still queued.
func (r *request) abandon(end error) error {
	if r.batch == nil {
		return unsent.Error(end) // the request is still queued, and a leader drops decided requests
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
