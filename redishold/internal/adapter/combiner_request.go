package adapter

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/redishold"
)

// request is one call of a Combiner. It belongs to its caller and, until it has
// detached, to the queue or to a batch; the last user puts it back
// into the pool.
type request struct {
	combiner *Combiner
	finish   func() redishold.Result // wait, made once
	done     chan struct{}           // gets a value when result is there; holds one

	call redishold.Call
	ctx  context.Context
	end  <-chan struct{} // that of ctx; of a deadline.Context, of its parent
	at   time.Time       // the deadline that the Combiner looks after; zero for none

	// Guarded by the Combiner's mutex. Who receives from done may read result and
	// late without.
	batch    *batch // nil while it is queued
	over     bool   // the outcome is decided
	late     bool   // by giveUp, so that the request may still be under way
	left     bool   // the caller has let go of it
	detached bool   // the queue and the batch have
	result   redishold.Result
}

// wait returns the outcome, and lets go of the request.
func (r *request) wait() redishold.Result {
	select {
	case <-r.done:
	case <-r.end:
		doubt := r.combiner.doubt
		if err := r.leave(); err != nil {
			if doubt != nil {
				doubt()
			}
			return redishold.Result{Err: err}
		}
		<-r.done // an answer is worth more than an end; it is here, or will be at once
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
		result.Err = Classify(ctx, result.Err, false) // it leaves the outcome open, or says that nothing was sent
	}
	return result
}

// leave lets go of the request because its context has ended, and returns the error
// of the call. It returns nil if there is an outcome.
func (r *request) leave() error {
	c := r.combiner
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.over {
		return nil
	}
	r.over, r.left = true, true
	return r.abandon(endOf(r.ctx))
}

// endOf returns why ctx has ended, never nil: that would mean that there is an
// outcome. The parent of a deadline.Context says so a moment before the Context
// that was made of it does.
func endOf(ctx context.Context) error {
	var parent error
	if d, ok := ctx.(*deadline.Context); ok {
		parent = d.Parent().Err()
	}
	return cmp.Or(ctx.Err(), parent, context.Canceled)
}

// abandon notes that nobody waits for the request any more, and returns what to tell
// its caller.
func (r *request) abandon(end error) error {
	if r.batch == nil {
		return NotSent(end) // a leader will not take it
	}
	r.batch.abandon()
	return end
}

// giveUp ends the call before its answer. The Combiner's mutex is held.
func (r *request) giveUp(end error) {
	r.over, r.late = true, true
	r.result.Err = r.abandon(end)
}

// detach lets go of the request for the queue or the batch. The Combiner's mutex is
// held.
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

// wake signals callers that the outcome is there.
func wake(requests []*request) {
	for _, r := range requests {
		r.done <- struct{}{}
	}
}
