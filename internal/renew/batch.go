package renew

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

const (
	// A Scheduler makes at most callsTogether calls at once, and then one more call after each
	// callGap, even if calls fail. Items that wait for a call share the next calls.
	callsTogether = 8
	callGap       = 25 * time.Millisecond
	// callsPerPeriod shortens callGap if there are very many items or if leases are very short.
	// Then the gap is so short that full batches can renew each item callsPerPeriod times in a
	// period.
	callsPerPeriod = 4
	// underWayMost bounds the calls under way. Without a bound, a store that hangs would get
	// more and more calls, each with a goroutine and a connection. For each full batch of
	// items one more call is allowed, so that calls that hang do not delay the other items.
	underWayMost = 32
)

// pace limits the calls of a Scheduler. Scheduler.mu guards it.
type pace struct {
	underWay int
	// free is when the next call would begin if there were exactly one call in each gap. Each
	// call moves this instant one gap further. A call may begin up to callsTogether-1 gaps
	// before this instant, so that some calls may begin together.
	free clock.Instant
}

// gap returns the time between two calls, except for calls that may begin together. The mutex
// is held.
func (s *Scheduler) gap() time.Duration {
	batches := time.Duration(len(s.items)/batchMost + 1)
	return max(min(callGap, s.periodOf(s.TTL)/callsPerPeriod/batches), 1)
}

// nextCall returns when the next call may begin. It returns the time of the next tick if no
// item is ready, or if too many calls are under way. The mutex is held.
func (s *Scheduler) nextCall(now clock.Instant) clock.Instant {
	if len(s.ready) == 0 || s.pace.underWay >= underWayMost+len(s.items)/batchMost {
		return now + TickMost
	}
	return max(now, s.pace.free-(callsTogether-1)*s.gap())
}

// batch is a call of Renew under way. Scheduler.mu guards the field `live`.
type batch struct {
	items    []Item
	failures int             // how many renewals of each item had failed in a row before this call
	ctx      context.Context // ends with the call, or when no item needs the call any more
	end      context.CancelFunc
	live     int // how many of the items are still in the heap
}

// begin makes batches of items that are ready: as many batches as may begin at the instant
// `now`. The mutex is held.
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

// takeReady removes from the field `ready` the items of one call, and returns them: the first
// item, and the items that may share a call with it, batchMost items at most. It also removes
// items that are over, or that Prove renews. The mutex is held.
func (s *Scheduler) takeReady() (items []Item) {
	s.ready = slices.DeleteFunc(s.ready, func(i Item) bool {
		e := i.Entry()
		switch {
		case e.heapIndex == 0:
		case e.paused:
			e.renewAt = s.Clock.Now()
		case len(items) == batchMost || len(items) > 0 && !e.sharesCall(items[0].Entry()):
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

// sharesCall reports whether two items may share a call. Items whose last renewals failed share
// a call only with items whose renewals failed as often. The reason is that a call ends only
// when all nodes of the store have answered, and a call for items that failed before has more
// time for that. Items with a fixed end share calls only with each other, because a claim near
// its fixed end leaves a call little time.
func (e *Entry) sharesCall(f *Entry) bool {
	return e.failures == f.failures && (e.checkEvery > 0) == (f.checkEvery > 0)
}

// leave records that one of the items is over. If it was the last of them, no item needs the
// call any more, and leave ends the call.
func (b *batch) leave() {
	if b.live--; b.live == 0 {
		b.end()
	}
}
