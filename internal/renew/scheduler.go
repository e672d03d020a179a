package renew

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

const (
	// renewPerTTL is how often a lease is renewed in each TTL: two renewals may fail in a
	// row before the lease is in danger.
	renewPerTTL = 3
	// gridPerPeriod is how many moments of a period renewals are gathered at, so that many
	// leases travel in few calls and yet spread over the period.
	gridPerPeriod = 20
	// batchMost bounds the claims in one call.
	batchMost = 500
	// TickMost bounds the time between two looks at the clock while there are items: a
	// suspended machine is noticed by then.
	TickMost = time.Second
	// chunk is how many items Each looks at before those who add and remove may go on.
	chunk = 512
	// CheckAfter is how old an item whose end is fixed must be before it is checked: a
	// short one is over by then, and costs no call.
	CheckAfter = 2 * time.Second
)

// Config says for whom a Scheduler works. All fields have to be set.
type Config struct {
	Clock  *clock.Clock
	TTL    time.Duration // how long a lease is, where the store does not grant less
	Margin time.Duration // how long before the end of its lease an item is over

	// Renew asks the store to renew claims, as driver.Backend does.
	Renew func(context.Context, []driver.Claim) ([]driver.Renewal, error)

	// Verbose says that renewals which went well are to be reported too.
	Verbose func() bool
	// Called and Renewed report calls and what they found. They may be slow.
	Called  func(context.Context, Call)
	Renewed func(Report)

	// Ticked is called again and again while there are items, each TickMost at least. It
	// must be quick.
	Ticked func()
	// Idle is called when the last item has left. It must be quick.
	Idle func()
}

// Scheduler renews items until they are removed, and ends those that are over.
type Scheduler struct {
	Config

	mu    sync.Mutex
	items schedule
	ready []Item // due, and waiting for a call that may begin
	pace  pace
	watch clock.Watch
	step  time.Duration // the least margin of the items that are extended
	timer *time.Timer   // nil before the first item
	next  clock.Instant // when it fires; 0 if it does not
}

// New returns a Scheduler without items.
func New(c Config) *Scheduler { return &Scheduler{Config: c} }

// periodOf is the time between two renewals of a lease that the store keeps for validFor:
// a store may grant less than it was asked for.
func (s *Scheduler) periodOf(validFor time.Duration) time.Duration {
	return max(min(s.TTL, validFor), 0) / renewPerTTL
}

// onGrid moves an instant back to one at which renewals of this period are gathered. The
// moments of a shorter period are those of the whole one and others halfway between, not
// a grid of their own: what is left of a session differs from lock to lock.
func (s *Scheduler) onGrid(t clock.Instant, period time.Duration) clock.Instant {
	grid := s.TTL / renewPerTTL / gridPerPeriod
	for grid > period/gridPerPeriod {
		grid /= 2
	}
	return t.Truncate(max(grid, 1))
}

// Add takes on an item that the store granted for validFor, counted from start. Its first
// renewal comes at a random moment between one third of a period and the whole of it, so
// that items added together are not renewed together ever after. Where the lease is much
// shorter than the TTL, it comes when a third of what is left has passed. An item whose
// end is fixed is renewed as often, from CheckAfter on: not to extend it, but to find out
// whether the store still has it.
func (s *Scheduler) Add(i Item, start clock.Moment, validFor time.Duration, fixed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, until := i.Entry(), i.Until()
	period := s.periodOf(validFor)
	e.renewAt = s.onGrid(start.Mono+period-rand.N(period*2/3+1), period) //nolint:gosec // spreads load
	if now := s.Clock.Now(); validFor < s.TTL/2 {
		e.renewAt = now + (until-now)/3
	}
	if fixed {
		e.checked = max(period, 1)
		e.renewAt = max(e.renewAt, start.Mono+CheckAfter)
	}
	if len(s.items) == 0 {
		s.watch.Start(start)
		s.step = s.Margin
	}
	if margin := start.Mono + validFor - until; !fixed && margin > 0 { // a waiter has none
		s.step = min(s.step, margin)
	}
	e.plan(until)
	heap.Push(&s.items, i)
	s.arm(s.Clock.Now()) // not start, which may be a second ago: the timer would fire as much later
}

// Remove drops an item that is over. A call that carries it may still be under way.
func (s *Scheduler) Remove(i Item) {
	if s.remove(i) {
		s.Idle()
	}
}

// remove reports whether it took out the last item.
func (s *Scheduler) remove(i Item) (idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := i.Entry()
	if e.place == 0 {
		return false
	}
	heap.Remove(&s.items, int(e.place-1))
	if e.batch != nil {
		e.batch.leave()
	}
	return len(s.items) == 0
}

// Hurry makes the renewal of an item due now.
func (s *Scheduler) Hurry(i Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewAt(i, s.Clock.Now())
}

// HurryAll makes the renewals of all items due now.
func (s *Scheduler) HurryAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	s.allDue(now)
	s.arm(now)
}

// renewAt plans the next renewal of an item. The mutex is held.
func (s *Scheduler) renewAt(i Item, t clock.Instant) {
	e := i.Entry()
	e.renewAt = t
	if e.place != 0 {
		e.plan(i.Until())
		heap.Fix(&s.items, int(e.place-1))
		s.arm(s.Clock.Now())
	}
}

// Trouble returns what has gone wrong with the renewals of an item since the last that
// succeeded, nil if nothing has.
func (s *Scheduler) Trouble(i Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return i.Entry().trouble()
}

// Find returns an item for which is reports true, nil if there is none. Nobody adds or
// removes items meanwhile.
func (s *Scheduler) Find(is func(Item) bool) Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.items {
		if is(i) {
			return i
		}
	}
	return nil
}

// Each calls yield with each item until it returns false. Between chunks of them others
// may add and remove items, and the items change places: one may come twice, or be left
// out. yield must not call the Scheduler.
func (s *Scheduler) Each(yield func(Item) bool) {
	for from, more := 0, true; more; from += chunk {
		more = s.each(from, yield)
	}
}

// each goes through a chunk, and reports whether there are more.
func (s *Scheduler) each(from int, yield func(Item) bool) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.items)
	for _, i := range s.items[min(from, all):min(from+chunk, all)] {
		if !yield(i) {
			return false
		}
	}
	return from+chunk < all
}
