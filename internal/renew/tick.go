package renew

import (
	"container/heap"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// arm sets the timer to the time when an item is due, when a call may begin, or when TickMost
// has passed, whichever comes first. It changes nothing if the timer will fire at that time or
// earlier. The mutex is held.
func (s *Scheduler) arm(now clock.Instant) {
	if len(s.items) == 0 {
		return
	}
	next := min(now+TickMost, s.items[0].Entry().due, s.nextCall(now))
	switch {
	case s.next != 0 && s.next <= next:
	case s.timer == nil:
		s.next = next
		s.timer = time.AfterFunc(next-now, s.tick)
	default:
		s.next = next
		s.timer.Reset(next - now)
	}
}

// tick begins the renewals that are due, ends the items that are over, and sets the timer
// again.
func (s *Scheduler) tick() {
	batches, over, more := s.collect()
	for _, b := range batches {
		go s.renew(b)
	}
	if more {
		s.Ticked()
	} else {
		s.Idle()
	}
	for _, o := range over {
		o.item.Expired(o.last)
	}
}

// expired has an item that is over, and the last error of that item.
type expired struct {
	item Item
	last error
}

// collect finds out what is due. It returns the batches whose calls have to be made now, and
// the items that are over. The result `more` is true if other items are left.
func (s *Scheduler) collect() (batches []*batch, over []expired, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = 0
	now := s.Clock.Read()
	if s.suspend.Suspended(now, s.step/2) { // the margin makes up for a smaller difference between the clocks
		s.allDue(now.Mono)
	}
	for len(s.items) > 0 && s.items[0].Entry().due <= now.Mono {
		i := s.items[0]
		e, until := i.Entry(), i.Until()
		switch {
		case now.Mono >= until:
			heap.Pop(&s.items)
			over = append(over, expired{i, e.lastError()})
			if e.batch != nil {
				e.batch.leave()
			}
			continue
		case e.idle():
			e.renewAt, e.ready = 0, true
			s.ready = append(s.ready, i)
		}
		e.plan(until)
		heap.Fix(&s.items, 0)
	}
	batches = s.begin(now.Mono)
	s.arm(now.Mono)
	return batches, over, len(s.items) > 0
}

// allDue plans the renewal of every item for the instant `now`. The mutex is held.
func (s *Scheduler) allDue(now clock.Instant) {
	for _, i := range s.items {
		i.Entry().renewAt = now
		i.Entry().plan(i.Until())
	}
	heap.Init(&s.items)
}
