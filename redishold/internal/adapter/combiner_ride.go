package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/redishold"
)

// ride is one call of a Combiner. It belongs to its caller and, until it has
// alighted, to the queue or to a party; whoever lets go of it last puts it back
// into the pool.
type ride struct {
	combiner *Combiner
	finish   func() redishold.Result // wait, made once
	done     chan struct{}           // gets a value when result is there; holds one

	call redishold.Call
	ctx  context.Context
	end  <-chan struct{} // that of ctx; of a deadline.Context, of its parent
	at   time.Time       // the deadline that the Combiner looks after; zero for none

	// Guarded by the Combiner's mutex. Who receives from done may read result and
	// late without.
	party    *party // nil while it is queued
	over     bool   // the outcome is decided
	late     bool   // by the deadline, so that the ride may still be under way
	left     bool   // the caller has let go of it
	alighted bool   // the queue and the party have
	result   redishold.Result
}

func newRide(c *Combiner) *ride {
	r := &ride{combiner: c, done: make(chan struct{}, 1)}
	r.finish = r.wait
	return r
}

// wait returns the outcome, and lets go of the ride.
func (r *ride) wait() redishold.Result {
	if r.end == nil {
		<-r.done
		return r.outcome()
	}
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

// outcome returns the result when it is there.
func (r *ride) outcome() redishold.Result {
	result, ctx := r.result, r.ctx
	if r.late {
		r.combiner.mu.Lock()
		r.left = true
		free := r.alighted
		r.combiner.mu.Unlock()
		if free {
			r.free()
		}
		return result
	}
	r.free()
	if result.Err != nil {
		result.Err = withEnd(ctx, result.Err)
	}
	return result
}

// leave lets go of the ride because its context has ended, and returns the error
// of the call. It returns nil if there is an outcome.
func (r *ride) leave() error {
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
	err := ctx.Err()
	if d, ok := ctx.(*deadline.Context); ok && err == nil {
		err = d.Parent().Err()
	}
	if err == nil {
		err = context.Canceled
	}
	return err
}

// abandon notes that nobody waits for the ride any more, and returns what to tell
// its caller.
func (r *ride) abandon(end error) error {
	if r.party == nil {
		return NotSent(end) // a leader will not take it
	}
	r.party.abandon()
	return end
}

// conclude decides the outcome, unless that has happened, and reports whether the
// caller is to be woken. The Combiner's mutex is held.
func (r *ride) conclude(result redishold.Result) bool {
	if r.over {
		return false
	}
	r.over, r.result = true, result
	return true
}

// alight lets go of the ride for the queue or the party. The Combiner's mutex is
// held.
func (r *ride) alight() {
	r.alighted = true
	if r.left {
		r.free()
	}
}

// free puts the ride back into the pool.
func (r *ride) free() {
	*r = ride{combiner: r.combiner, finish: r.finish, done: r.done}
	r.combiner.rides.Put(r)
}

// wake tells callers that the outcome is there.
func wake(rides []*ride) {
	for _, r := range rides {
		r.done <- struct{}{}
	}
}

// withEnd adds the error of ctx, if that has ended, to an error that leaves the
// outcome open or says that nothing was sent.
func withEnd(ctx context.Context, err error) error {
	var reply *redishold.ReplyError
	if errors.As(err, &reply) {
		return err
	}
	return Classify(ctx, err, false)
}
