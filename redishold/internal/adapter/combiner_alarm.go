package adapter

import (
	"context"
	"time"
)

// alarm is one timer for the deadlines of all calls. It is set for the earliest
// deadline that it is notified of, not set back when that call ends earlier, and rings
// at most once when there are no calls any more.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero when it is not set
}

// set makes the alarm ring at the given time, if it would not ring earlier. The
// zero time is none.
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

// ring ends the calls whose deadline has passed.
func (c *Combiner) ring() {
	var late []*request
	c.mu.Lock()
	c.alarm.at = time.Time{}
	now := time.Now()
	look := func(requests []*request) {
		for _, r := range requests {
			switch {
			case r.over:
			case r.at.IsZero() || r.at.After(now):
				c.alarm.set(r.at, c.wake)
			default:
				r.giveUp(context.DeadlineExceeded)
				late = append(late, r)
			}
		}
	}
	look(c.queue)
	for _, p := range c.away {
		look(p.requests)
	}
	c.mu.Unlock()
	if len(late) > 0 && c.doubt != nil {
		c.doubt()
	}
	wake(late)
}

func (c *Combiner) departures() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started
}

// giveUp ends the calls of the first n batches that have no answer: they may have
// gone to a server that was replaced.
func (c *Combiner) giveUp(n uint64) {
	var given []*request
	c.mu.Lock()
	for _, p := range c.away {
		for _, r := range p.requests {
			if p.number <= n && !r.over {
				r.giveUp(errDeposed)
				given = append(given, r)
			}
		}
	}
	c.mu.Unlock()
	wake(given)
}
