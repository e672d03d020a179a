package adapter

import (
	"context"
	"time"
)

// alarm is one timer for the deadlines of all calls. It is set to the earliest deadline. It
// stays set if the call with that deadline ends earlier. So it may ring once more when no calls
// are left.
type alarm struct {
	timer *time.Timer
	at    time.Time // when the alarm rings; zero if the alarm is not set
}

// set makes the alarm ring at the given time, unless it will ring earlier. A zero time
// changes nothing.
func (a *alarm) set(at time.Time, ring func()) {
	if at.IsZero() || !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(at), ring)
	} else {
		a.timer.Reset(time.Until(at))
	}
}

// ring ends the calls whose deadlines have passed.
func (c *Combiner) ring() {
	var late []*request
	c.mu.Lock()
	c.alarm.at = time.Time{}
	now := time.Now()
	expire := func(requests []*request) {
		for _, r := range requests {
			switch {
			case r.decided:
			case r.deadline.IsZero() || r.deadline.After(now):
				c.alarm.set(r.deadline, c.wake)
			default:
				r.giveUp(context.DeadlineExceeded)
				late = append(late, r)
			}
		}
	}
	expire(c.queue)
	for _, p := range c.sent {
		expire(p.requests)
	}
	c.mu.Unlock()
	wake(late)
}

// lastBatch returns the number of the batch that was sent last.
func (c *Combiner) lastBatch() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.batchCount
}

// giveUp ends the calls that have no reply yet and are in a batch whose number is from `first` to
// `last`. The parameter `end` is the error of these calls.
func (c *Combiner) giveUp(first, last uint64, end error) {
	var given []*request
	c.mu.Lock()
	for _, p := range c.sent {
		for _, r := range p.requests {
			if first <= p.number && p.number <= last && !r.decided {
				r.giveUp(end)
				given = append(given, r)
			}
		}
	}
	c.mu.Unlock()
	wake(given)
}
