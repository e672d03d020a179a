package adapter

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/redishold"
)

// Inliner is a Sender that can run a call in the goroutine of its caller, while few calls are in
// flight. A goroutine for each pipeline would cost more than the pipeline saves then.
type Inliner interface {
	// MayInline reports whether RunInline can run a call with that much time left. The
	// parameter `inFlight` is the number of calls without a reply.
	MayInline(left time.Duration, inFlight int) bool

	// RunInline runs a call, at most once, under one of two contexts. ctx has no deadline,
	// and ends at the deadline of the call, or when the Combiner gives the call up. The
	// parameter `until` has that deadline, and no Done channel. RunInline may use it if
	// `alone` is true: then no other call was in flight at the beginning.
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

// inline runs a call in the goroutine of its caller, if the Sender can do that now. Only calls
// that nothing but a deadline can end run so: a caller that may give up at any time must not
// wait for a library that does not return.
func (c *Combiner) inline(ctx context.Context, call *redishold.Call) (result redishold.Result, done bool) {
	d, ok := ctx.(*deadline.Context)
	if c.inliner == nil || !ok || d.Parent().Done() != nil {
		return result, false
	}
	at, _ := d.Deadline()
	left := time.Until(at)
	c.mu.Lock()
	inFlight := c.inFlight
	if c.collecting || inFlight >= fewCalls || !c.inliner.MayInline(left, inFlight) {
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
