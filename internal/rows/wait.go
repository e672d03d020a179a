package rows

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// Waiter prepares to wait for the release of a name. The end of a lease wakes only
// where rows are looked at; else the caller bounds the wait by Outcome.RetryAfter.
func (e *Engine) Waiter(c driver.Claim) driver.Waiter {
	return &waiter{hub: &e.hub, name: c.Name, owner: c.Owner}
}

// ahead is what Outcome.Ahead has.
type ahead struct {
	version uint64 // of the topic, before the Try
	place   int    // how many wait before the claim; Waiting if it has no place itself
}

type waiter struct {
	hub         *hub
	name, owner string
	topic       *topic // nil before the first Wait and after Close
	sleeper     *sleeper
}

// Wait returns when the name may have been released since the Try that last answered,
// or with ctx's error.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, err
	}
	before, ok := last.Ahead.(ahead)
	if !ok {
		return driver.Outcome{}, nil // not an answer of ours: nothing is known, so another try is worth while
	}
	if w.topic == nil {
		w.topic, w.sleeper = w.hub.join(w.name, w.owner)
	}
	return driver.Outcome{}, w.hub.wait(ctx, w.sleeper, before)
}

// Close gives up the waiter's share of what is listened to.
func (w *waiter) Close() {
	if w.topic != nil {
		w.hub.leave(w.name, w.topic, w.sleeper)
		w.topic, w.sleeper = nil, nil
	}
}
