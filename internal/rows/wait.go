package rows

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// Waiter returns a Waiter for the release of c.Name. If rows are polled, the end of a lease
// wakes the Waiter, too. If the Engine listens, the caller must bound the wait by
// Outcome.RetryAfter.
func (e *Engine) Waiter(c driver.Claim) driver.Waiter {
	return &waiter{hub: &e.hub, name: c.Name, owner: c.Owner}
}

// ahead is the value of Outcome.Ahead.
type ahead struct {
	version  uint64 // the version of the topic before the Try
	position int    // how many waiters are before the claim; the constant Waiting if the claim is not in the queue
	noQueue  bool   // the claim does not enter the queue
}

type waiter struct {
	hub         *hub
	name, owner string
	topic       *topic // nil before the first Wait and after Close
	sleeper     *sleeper
}

// Wait waits until the name may have been released after the refused Try. The parameter `last`
// is the Outcome of that Try. The error is nil when the wait is over. If ctx ends first, Wait
// returns the error of ctx.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, err
	}
	before, ok := last.Ahead.(ahead)
	if !ok {
		return driver.Outcome{}, nil // not an Outcome of this Engine: the caller must try again
	}
	if w.topic == nil {
		w.topic, w.sleeper = w.hub.join(w.name, w.owner)
	}
	return driver.Outcome{}, w.hub.wait(ctx, w.sleeper, before)
}

// Close removes the waiter from its topic.
func (w *waiter) Close() {
	if w.topic != nil {
		w.hub.leave(w.name, w.topic, w.sleeper)
		w.topic, w.sleeper = nil, nil
	}
}
