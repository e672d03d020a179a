package renew

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

const (
	// callsTogether may begin at one moment, and each callGap one more: a Scheduler makes
	// 50 calls a second at most, whatever fails. What waits meanwhile travels together.
	callsTogether = 8
	callGap       = 25 * time.Millisecond
	// callsPerPeriod raises that for very many items and very short leases: each may be
	// renewed so many times in a period, in full batches.
	callsPerPeriod = 4
	// underWayMost bounds the calls under way: a hung store would get ever more of them,
	// each with a goroutine and a connection. Full batches of all items are allowed in
	// addition, so that those that hang keep no others waiting.
	underWayMost = 32
)

// pace is what limits the calls of a Scheduler. Scheduler.mu guards it.
type pace struct {
	underWay int
	// free is when no call will have begun too early, if none begins until then: each call
	// moves it by a gap, and it may be callsTogether gaps ahead.
	free clock.Instant
}

// gap is the time between two calls, but for those that may begin together. The mutex is
// held.
func (s *Scheduler) gap() time.Duration {
	batches := time.Duration(len(s.items)/batchMost + 1)
	return max(min(callGap, s.periodOf(s.TTL)/callsPerPeriod/batches), 1)
}

// nextCall is when the next call may begin for an item that is ready; the time of the next
// look at the clock if there is none, or too many calls are under way. The mutex is held.
func (s *Scheduler) nextCall(now clock.Instant) clock.Instant {
	if len(s.ready) == 0 || s.pace.underWay >= underWayMost+len(s.items)/batchMost {
		return now + TickMost
	}
	return max(now, s.pace.free-(callsTogether-1)*s.gap())
}

// batch is a call of Renew under way. Scheduler.mu guards what changes.
type batch struct {
	items    []Item
	failures int             // how often each of them failed before, in a row
	ctx      context.Context // over when the call has ended, or need not go on
	end      context.CancelFunc
	live     int // how many of the items are not over
}

// begin makes batches of items that are ready, as many as may begin now. The mutex is held.
func (s *Scheduler) begin(now clock.Instant) (batches []*batch) {
	for s.nextCall(now) <= now {
		items := s.takeReady()
		if len(items) == 0 {
			continue // none of them needs a call any more
		}
		s.pace.underWay++
		s.pace.free = max(s.pace.free, now) + s.gap()
		b := &batch{items: items, failures: int(items[0].Entry().failures), live: len(items)}
		b.ctx, b.end = context.WithCancel(context.Background())
		for _, i := range items {
			i.Entry().batch = b
		}
		batches = append(batches, b)
	}
	return batches
}

// takeReady takes the items of one call from those that are ready: from the first on those
// alike. Items that are over or being proved are taken out, too.
// The mutex is held.
func (s *Scheduler) takeReady() (items []Item) {
	s.ready = slices.DeleteFunc(s.ready, func(i Item) bool {
		e := i.Entry()
		switch {
		case e.place == 0:
		case e.paused:
			e.renewAt = s.Clock.Now()
		case len(items) == batchMost || len(items) > 0 && !e.alike(items[0].Entry()):
			return false
		default:
			e.renewAt = 0
			items = append(items, i)
		}
		e.ready = false
		return true
	})
	return items
}

// alike says that two items may share a call. Those whose last renewals failed share one only
// with those that failed as often: a call ends when all nodes of the store have answered, and
// what fails may wait longer for that. Nor do items with a fixed end share one with others:
// near its end such a claim leaves a call little time.
func (e *Entry) alike(f *Entry) bool {
	return e.failures == f.failures && (e.checked > 0) == (f.checked > 0)
}

// leave is called when one of the items is over. With the last of them the call is of no
// use to anybody.
func (b *batch) leave() {
	if b.live--; b.live == 0 {
		b.end()
	}
}
