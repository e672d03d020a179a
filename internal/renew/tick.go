package renew

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// arm sets the timer for what is due first, if that is before it fires anyway. The mutex
// is held.
func (s *Scheduler) arm(now clock.Instant) {
	if len(s.items) == 0 {
		return
	}
	next := min(now+TickMost, s.items[0].Entry().due)
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

// tick does what is due, and sets the timer again.
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

// expired is an item that is over, and why.
type expired struct {
	item Item
	last error
}

// collect takes from the heap what is due: items to renew, in batches that are under way
// from now on, and items that are over. more says that there are others.
func (s *Scheduler) collect() (batches []*batch, over []expired, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = 0
	now := s.Clock.Read()
	if s.watch.Suspended(now, s.step/2) { // a smaller step is what the margin is for
		s.allDue(now.Mono)
	}
	var due []Item
	for len(s.items) > 0 && s.items[0].Entry().due <= now.Mono {
		i := s.items[0]
		e, until := i.Entry(), i.Until()
		switch {
		case now.Mono >= until:
			heap.Pop(&s.items)
			over = append(over, expired{i, e.trouble()})
			if e.batch != nil {
				e.batch.leave()
			}
			continue
		case e.idle():
			e.renewAt = 0
			due = append(due, i)
		}
		e.plan(until)
		heap.Fix(&s.items, 0)
	}
	s.arm(now.Mono)
	return inBatches(due), over, len(s.items) > 0
}

// allDue plans the renewal of every item for now. The mutex is held.
func (s *Scheduler) allDue(now clock.Instant) {
	for _, i := range s.items {
		i.Entry().renewAt = now
		i.Entry().plan(i.Until())
	}
	heap.Init(&s.items)
}

// batch is a call of Renew under way. Scheduler.mu guards what changes.
type batch struct {
	items    []Item
	failures int             // how often each of them failed before, in a row
	ctx      context.Context // over when the call has ended, or need not go on
	end      context.CancelFunc
	live     int // how many of the items are not over
}

// inBatches divides what is due into calls. Items whose last renewals failed share one
// only with those that failed as often: a call ends when all nodes of the store have
// answered, and what fails may wait longer for that. Nor do items with a fixed end share
// one with others: near its end such a claim leaves a call little time. The mutex is held.
func inBatches(due []Item) (batches []*batch) {
	alike := func(a, b Item) int {
		e, f := a.Entry(), b.Entry()
		return cmp.Or(cmp.Compare(e.failures, f.failures), cmp.Compare(min(e.checked, 1), min(f.checked, 1)))
	}
	if slices.ContainsFunc(due, func(i Item) bool { return alike(i, due[0]) != 0 }) {
		slices.SortStableFunc(due, alike)
	}
	for len(due) > 0 {
		n := 1
		for n < min(len(due), batchMost) && alike(due[n], due[0]) == 0 {
			n++
		}
		b := &batch{items: due[:n:n], failures: int(due[0].Entry().failures), live: n}
		b.ctx, b.end = context.WithCancel(context.Background())
		for _, i := range b.items {
			i.Entry().batch = b
		}
		batches = append(batches, b)
		due = due[n:]
	}
	return batches
}

// leave is called when one of the items is over. With the last of them the call is of no
// use to anybody.
func (b *batch) leave() {
	if b.live--; b.live == 0 {
		b.end()
	}
}
