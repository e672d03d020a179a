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
	// `until` is a context with that deadline, and without a Done channel. RunInline may use
	// `until` only if `alone` is true, which means that no other call was in flight when this
	// call began.
	RunInline(ctx, until context.Context, call *redishold.Call, alone bool) redishold.Result
}

// until is a context that has a deadline and no Done channel.
type until struct{ at time.Time }

// Deadline implements context.Context.
func (u *until) Deadline() (time.Time, bool) { return u.at, true }

// Done returns nil.
func (*until) Done() <-chan struct{} { return nil }

// Value returns nil.
func (*until) Value(any) any { return nil }

// Err returns context.DeadlineExceeded after the deadline.
func (u *until) Err() error {
	if time.Now().Before(u.at) {
		return nil
	}
	return context.DeadlineExceeded
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
	if c.collecting || inFlight >= c.few || !c.inliner.MayInline(left, inFlight) {
		c.mu.Unlock()
		return result, false
	}
	r, p := c.requests.Get().(*request), c.batches.Get().(*batch)
	r.call, r.ctx, r.deadline, r.batch = *call, ctx, at, p
	p.requests, p.inline, p.until.at = append(p.requests, r), true, at
	c.inFlight++
	p.prepare()
	p.enter()
	c.alarm.set(at, c.wake)
	c.mu.Unlock()
	defer c.dismiss(p)
	for len(p.requests) > 0 { // a second time if the server does not know the script
		p.results[0] = c.inliner.RunInline(p.context, &p.until, p.calls[0], inFlight == 0)
		c.deliver(p)
	}
	<-r.done
	return r.outcome(), true
}
