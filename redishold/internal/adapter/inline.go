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

	// PlanInline returns how RunInline can run a call now. The parameter `inFlight` is the number
	// of other calls without a reply, which is lower than FewCalls. The Combiner's mutex is held.
	PlanInline(inFlight int) InlinePlan

	// RunInline runs a call as `plan` says, at most once. `plan` is the result of PlanInline for
	// this call, and is not NotInline. ctx ends at the deadline of the call, or when the Combiner
	// gives the call up. Only the ctx of the plan OverOwn has that deadline, see
	// context.Context.Deadline.
	RunInline(ctx context.Context, plan InlinePlan, call *redishold.Call) redishold.Result
}

// Interruptible is an Inliner that can also run a call whose caller may give up at any time.
type Interruptible interface {
	Inliner

	// PlanInterruptible is PlanInline for such a call. It returns OverShared or NotInline. With
	// OverShared, RunInline returns as soon as its ctx ends, whatever the server does. The
	// Combiner's mutex is held.
	PlanInterruptible() InlinePlan
}

// InlinePlan is how an Inliner runs a call in the goroutine that makes the call.
type InlinePlan uint8

const (
	// NotInline means that the Inliner cannot run the call now.
	NotInline InlinePlan = iota

	// OverOwn means a connection that no other call uses at the same time. So the library may
	// close the connection at the deadline of the call.
	OverOwn

	// OverShared means the connection that other calls use, too.
	OverShared
)

// timedContext is the batchContext of a call with the plan OverOwn, with the deadline of the call.
type timedContext struct{ *batchContext }

// Deadline implements context.Context.
func (t timedContext) Deadline() (time.Time, bool) {
	t.combiner.mu.Lock()
	defer t.combiner.mu.Unlock()
	return t.at, true
}

// inline runs a call in the goroutine of its caller, if the Sender can do that now. A caller that
// may give up at any time must not wait for a library that does not return. So the call of such a
// caller runs only if the Sender is Interruptible. If inline has not run the call, `done` is false.
func (c *Combiner) inline(ctx context.Context, call *redishold.Call) (result redishold.Result, done bool) {
	d, ok := ctx.(*deadline.Context)
	if c.inliner == nil || !ok {
		return result, false
	}
	mayGiveUp := d.Parent().Done() != nil
	if mayGiveUp && (c.interruptible == nil || d.Parent().Err() != nil) {
		return result, false
	}
	at, _ := d.Deadline()
	c.mu.Lock()
	plan := NotInline
	switch {
	case c.collecting || c.inFlight >= c.few():
	case mayGiveUp:
		plan = c.interruptible.PlanInterruptible()
	default:
		plan = c.inliner.PlanInline(c.inFlight)
	}
	if plan == NotInline {
		c.mu.Unlock()
		return result, false
	}
	p := c.batches.Get().(*batch)
	p.inline = true
	p.context.at = at
	r := c.requests.Get().(*request)
	r.call = *call
	r.ctx = ctx
	r.deadline = at
	r.batch = p
	p.requests = append(p.requests, r)
	p.enter()
	c.alarm.set(at, c.wake)
	number := p.number
	c.mu.Unlock()
	defer c.dismiss(p)
	if mayGiveUp {
		// The number, and not r, says which call that is: r is used again when its caller has the outcome.
		defer context.AfterFunc(d.Parent(), func() { c.giveUp(number, number, endOf(ctx)) })()
	}
	var end context.Context = p.context
	if plan == OverOwn {
		end = timedContext{p.context}
	}
	p.results[0] = c.inliner.RunInline(end, plan, p.calls[0])
	if c.deliver(p) {
		go c.lead()
	}
	<-r.done
	return r.outcome(), true
}
