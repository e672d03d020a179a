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
	// renewPerTTL is how often a lease is renewed in a TTL: two renewals may fail in a row
	// before the lease is in danger.
	renewPerTTL = 3
	// Renewals are moved to common times, gridPerPeriod of them in a period: so few that many
	// leases share a call, and so many that the calls are spread over the period.
	gridPerPeriod = 20
	// batchMost bounds the claims in one call.
	batchMost = 500
	// TickMost bounds the time between two readings of the clocks while there are items: a
	// suspension of the machine is noticed within that time.
	TickMost = time.Second
	// chunk is how many items the method Each visits before it lets other goroutines lock
	// the mutex.
	chunk = 512
	// CheckAfter is how old an item with a fixed end must be before it is renewed. Most such
	// items are over by then, and cost no call.
	CheckAfter = 2 * time.Second
)

// Config has the settings of a Scheduler. All fields must be set.
type Config struct {
	Clock  *clock.Clock
	TTL    time.Duration // the length of a lease, unless the store grants a shorter one
	Margin time.Duration // how long before the end of its lease an item is over

	// Renew asks the store to renew claims, as driver.Backend does.
	Renew func(context.Context, []driver.Claim) ([]driver.Renewal, error)

	// Verbose reports whether renewals that succeeded are reported, too.
	Verbose func() bool
	// Called reports a call, and Renewed the result of a renewal. They may be slow.
	Called  func(context.Context, Call)
	Renewed func(Report)

	// Ticked is called repeatedly while there are items, at least once in TickMost. It must
	// be quick.
	Ticked func()
	// Idle is called when the last item was removed. It must be quick.
	Idle func()
}

// Scheduler renews items until they are removed, and ends those that are over.
type Scheduler struct {
	Config

	mu      sync.Mutex
	items   schedule
	ready   []Item // their renewal is due, but no call may begin yet
	pace    pace
	suspend clock.SuspendDetector
	step    time.Duration // the least margin of all items without a fixed end
	timer   *time.Timer   // nil before the first item
	next    clock.Instant // when the timer fires; 0 if it is not set

	unreported map[Item]Report // the latest renewal of an item, if an earlier one is still being reported
}

// New returns a Scheduler without items.
func New(c Config) *Scheduler { return &Scheduler{Config: c} }

// periodOf returns the time between two renewals of a lease that the store keeps for
// validFor, which may be less than the TTL.
func (s *Scheduler) periodOf(validFor time.Duration) time.Duration {
	return max(min(s.TTL, validFor), 0) / renewPerTTL
}

// onGrid moves an instant back to one of the common times for renewals with this period. The
// common times of a shorter period include those of the longest period: with sessions, the
// length of the lease differs from lock to lock, and separate common times for each length
// would need many calls.
func (s *Scheduler) onGrid(t clock.Instant, period time.Duration) clock.Instant {
	grid := s.TTL / renewPerTTL / gridPerPeriod
	for grid > period/gridPerPeriod {
		grid /= 2
	}
	return t.Truncate(max(grid, 1))
}

// Add adds an item that the store granted for the time validFor, counted from the Moment
// `start`. Its first renewal comes at a random time between one third of a period and the whole
// of it, so that items that are added together are not always renewed together. If the lease is
// much shorter than the TTL, the first renewal comes when a third of the time until the end of
// the item has passed. An item whose end is fixed is renewed as often, but not before the time
// CheckAfter has passed. Such a renewal does not extend the lease, but finds out whether the
// store still has the claim.
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
		e.checkEvery = max(period, 1)
		e.renewAt = max(e.renewAt, start.Mono+CheckAfter)
	}
	if len(s.items) == 0 {
		s.suspend.Start(start)
		s.step = s.Margin
	}
	if margin := start.Mono + validFor - until; !fixed && margin > 0 { // the claim of a waiter has no margin
		s.step = min(s.step, margin)
	}
	e.plan(until)
	heap.Push(&s.items, i)
	s.arm(s.Clock.Now()) // not `start`, which may be a second ago: the timer would fire that much too late
}

// Remove removes an item that is over. A call that renews it may still be under way.
func (s *Scheduler) Remove(i Item) {
	if s.remove(i) {
		s.Idle()
	}
}

// remove removes an item, and reports whether that was the last item.
func (s *Scheduler) remove(i Item) (idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := i.Entry()
	if e.heapIndex == 0 {
		return false
	}
	heap.Remove(&s.items, int(e.heapIndex-1))
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

// renewAt plans the next renewal of an item for the instant t. The mutex is held.
func (s *Scheduler) renewAt(i Item, t clock.Instant) {
	e := i.Entry()
	e.renewAt = t
	if e.heapIndex != 0 {
		e.plan(i.Until())
		heap.Fix(&s.items, int(e.heapIndex-1))
		s.arm(s.Clock.Now())
	}
}

// LastError returns the last error of an item since the last renewal that succeeded; nil if
// there is none.
func (s *Scheduler) LastError(i Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return i.Entry().lastError()
}

// Find returns an item for which the function `is` returns true, or nil if there is no such
// item. The mutex is held meanwhile, so the function must not call the Scheduler.
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

// Each calls the function `yield` with each item, until `yield` returns false. Each unlocks the
// mutex after each chunk. Items may be added, removed and moved then, so an item may come twice
// or be left out. The function `yield` must not call the Scheduler.
func (s *Scheduler) Each(yield func(Item) bool) {
	for from, more := 0, true; more; from += chunk {
		more = s.each(from, yield)
	}
}

// each calls the function `yield` with the items of one chunk, which begins at the index
// `from`. It returns true if there are more items and `yield` returned true for all items of
// the chunk.
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
