package adapter

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/redishold"
)

// Inliner is a Sender that can run a call in the goroutine that makes the call, while few calls
// are in flight. With so few calls, a leader would cost more than a shared pipeline saves.
type Inliner interface {
	// FewCalls returns how many calls, queued or in flight, are few: a leader then sends at
	// once, because the server would have no work while the leader waited for more calls.
	FewCalls() int

	// MayInline reports whether RunInline can run a call now. The parameter `left` is the time
	// until the deadline of the call. The parameter `inFlight` is the number of other calls
	// without a reply, which is lower than FewCalls.
	MayInline(left time.Duration, inFlight int) bool

	// RunInline runs a call, at most once, under one of two contexts. ctx has no deadline, and
	// ends at the deadline of the call, or when the Combiner gives the call up. The parameter
	// `timed` is the same context with that deadline. The parameter `alone` means that no other
	// call was in flight when this call began.
	RunInline(ctx, timed context.Context, call *redishold.Call, alone bool) redishold.Result
}

// timedContext is the batchContext of a call in the goroutine of its caller, with the deadline
// of the call.
type timedContext struct{ *batchContext }

// Deadline implements context.Context.
func (t timedContext) Deadline() (time.Time, bool) {
	t.combiner.mu.Lock()
	defer t.combiner.mu.Unlock()
	return t.at, true
}

// inline runs a call in the goroutine of its caller, if the Sender can do that now, and if
// nothing but a deadline can end the context of the call. A caller that may give up at any time
// must not wait for a library that does not return. If inline has not run the call, `done` is
// false.
func (c *Combiner) inline(ctx context.Context, call *redishold.Call) (result redishold.Result, done bool) {
	d, ok := ctx.(*deadline.Context)
	if c.inliner == nil || !ok || d.Parent().Done() != nil {
		return result, false
	}
	at, _ := d.Deadline()
	left := time.Until(at)
	c.mu.Lock()
	inFlight := c.inFlight
	if c.collecting || inFlight >= c.few() || !c.inliner.MayInline(left, inFlight) {
		c.mu.Unlock()
		return result, false
	}
	r, p := c.requests.Get().(*request), c.batches.Get().(*batch)
	r.call, r.ctx, r.deadline, r.batch = *call, ctx, at, p
	p.requests, p.inline, p.context.at = append(p.requests, r), true, at
	p.enter()
	c.alarm.set(at, c.wake)
	c.mu.Unlock()
	defer c.dismiss(p)
	p.results[0] = c.inliner.RunInline(p.context, timedContext{p.context}, p.calls[0], inFlight == 0)
	if c.deliver(p) {
		go c.lead()
	}
	<-r.done
	return r.outcome(), true
}
