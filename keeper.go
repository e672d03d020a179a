package holdfast

import (
	"cmp"
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	// renewPerTTL is how often a lease is renewed in each TTL: two renewals may
	// fail in a row before the lease is in danger.
	renewPerTTL = 3
	// gridPerPeriod is how many moments of a period renewals are gathered at, so
	// that many leases travel in few calls and yet spread over the period.
	gridPerPeriod = 20
	// batchSize bounds the claims in one call of Renew.
	batchSize = 500
	// tickCap bounds the sleep of the keeper: a suspended machine is noticed by then.
	tickCap = time.Second
)

// keeper renews all leases of a Locker and ends those whose deadline passes. One
// timer serves any number of them; it runs while there are any, and once more
// after the last. Calls to the store run in goroutines of their own, a batch in
// each, and leases whose last renewal failed travel apart from the others, so that
// neither a store that hangs nor a claim that fails delays another's renewal or
// deadline.
//
// Lock order: keeper.mu before lease.mu.
type keeper struct {
	locker *Locker

	mu     sync.Mutex
	leases schedule
	watch  clock.Watch
	timer  *time.Timer   // nil before the first lease
	next   clock.Instant // when it fires; 0 if it does not
}

func (k *keeper) init(l *Locker) {
	k.locker = l
}

// period is the time between two renewals.
func (k *keeper) period() time.Duration { return k.locker.ttl / renewPerTTL }

// periodOf is the time between two renewals of a lease that the store keeps for
// validFor: a store may grant less than it was asked for.
func (k *keeper) periodOf(l *lease, validFor time.Duration) time.Duration {
	return min(l.ttl, validFor) / renewPerTTL
}

// onGrid moves a moment back to one at which renewals of this period are gathered.
func onGrid(t clock.Instant, period time.Duration) clock.Instant {
	return t.Truncate(max(period/gridPerPeriod, 1))
}

// add takes on a lease. Its first renewal comes at a random moment between one
// third of a period and the whole of it, so that locks taken together are not
// renewed together ever after. One that is still short, see driver.Waiter, is
// renewed when a third of what is left has passed.
func (k *keeper) add(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !l.fixed {
		period := k.periodOf(l, l.ends-l.proven.Mono)
		l.renewing.renewAt = onGrid(l.proven.Mono+period-rand.N(period*2/3+1), period) //nolint:gosec // spreads load
		if now := k.locker.clock.Now(); l.ends-l.proven.Mono < l.ttl/2 {
			l.renewing.renewAt = now + (l.deadline-now)/3
		}
	}
	if len(k.leases) == 0 {
		k.watch.Start(l.proven)
	}
	l.plan()
	heap.Push(&k.leases, l)
	k.arm(k.locker.clock.Now()) // not proven, which may be a second ago: the timer would fire as much later
}

// remove drops a lease. A call that carries it may still be under way.
func (k *keeper) remove(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.renewing.index < 0 {
		return
	}
	heap.Remove(&k.leases, int(l.renewing.index))
	if f := l.renewing.flight; f != nil {
		f.leave()
	}
}

// hurry makes the renewal of l due now.
func (k *keeper) hurry(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewAt(l, k.locker.clock.Now())
}

// renewAt plans the next renewal of l. The mutex is held.
func (k *keeper) renewAt(l *lease, t clock.Instant) {
	l.renewing.renewAt = t
	if l.renewing.index >= 0 {
		l.plan()
		heap.Fix(&k.leases, int(l.renewing.index))
		k.arm(k.locker.clock.Now())
	}
}

// pause keeps the keeper from renewing l until resume, and waits for a call that
// is under way: it carries the old count.
func (k *keeper) pause(ctx context.Context, l *lease) error {
	k.mu.Lock()
	l.renewing.paused = true
	flight := l.renewing.flight
	k.mu.Unlock()
	if flight == nil {
		return nil
	}
	select {
	case <-flight.ctx.Done():
		return nil
	case <-ctx.Done():
		k.resume(l)
		return ctx.Err()
	}
}

func (k *keeper) resume(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.renewing.paused = false
	k.renewAt(l, l.renewing.renewAt)
}

// trouble returns what has gone wrong with the renewals of l since the last that
// succeeded, nil if nothing has.
func (k *keeper) trouble(l *lease) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.renewing.err == nil && l.renewing.flight != nil {
		return retry.ErrNoAnswer
	}
	return l.renewing.err
}

// arm sets the timer for what is due first, if that is before it fires anyway.
// The mutex is held.
func (k *keeper) arm(now clock.Instant) {
	if len(k.leases) == 0 {
		return
	}
	next := min(now+tickCap, k.leases[0].renewing.due)
	switch {
	case k.next != 0 && k.next <= next:
	case k.timer == nil:
		k.next = next
		k.timer = time.AfterFunc(next-now, k.tick)
	default:
		k.next = next
		k.timer.Reset(next - now)
	}
}

// tick does what is due, and sets the timer anew.
func (k *keeper) tick() {
	batches, over := k.collect()
	for _, batch := range batches {
		go k.renew(batch)
	}
	for _, l := range over {
		_ = l.expire() // what it returns, the holder hears from its Lock
	}
}

// collect takes from the schedule what is due: leases to renew, in batches that are
// now in flight, and leases that are over.
func (k *keeper) collect() (batches [][]*lease, over []*lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = 0
	now := k.locker.clock.Read()
	if k.watch.Suspended(now, k.locker.margin/2) { // a smaller step is what the margin is for
		k.allDue(now.Mono)
	}
	var due []*lease
	for len(k.leases) > 0 && k.leases[0].renewing.due <= now.Mono {
		l := k.leases[0]
		switch {
		case now.Mono >= l.until():
			heap.Pop(&k.leases)
			if f := l.renewing.flight; f != nil {
				f.leave()
			}
			over = append(over, l)
			continue
		case l.renewing.grounded():
			l.renewing.renewAt = 0
			due = append(due, l)
		}
		l.plan()
		heap.Fix(&k.leases, 0)
	}
	if len(k.leases) > 0 {
		k.locker.reports.start()
	}
	k.arm(now.Mono)
	return inBatches(due), over
}

// inBatches divides what is due into calls. Leases whose last renewals failed share
// one only with those that failed as often: a call ends when all nodes of the store
// have answered, and what fails may wait longer for that. keeper.mu is held.
func inBatches(due []*lease) (batches [][]*lease) {
	failures := func(l *lease) int32 { return l.renewing.failures }
	if slices.ContainsFunc(due, func(l *lease) bool { return failures(l) > 0 }) {
		slices.SortStableFunc(due, func(a, b *lease) int { return cmp.Compare(failures(a), failures(b)) })
	}
	for len(due) > 0 {
		n := 1
		for n < min(len(due), batchSize) && failures(due[n]) == failures(due[0]) {
			n++
		}
		f := newFlight(n)
		for _, l := range due[:n] {
			l.renewing.flight = f
		}
		batches = append(batches, due[:n:n])
		due = due[n:]
	}
	return batches
}

// allDue plans the renewal of every hold for now. The mutex is held.
func (k *keeper) allDue(now clock.Instant) {
	for _, l := range k.leases {
		l.renewing.renewAt = now
		l.plan()
	}
	heap.Init(&k.leases)
}

// flight is a call of Renew under way. keeper.mu guards it.
type flight struct {
	ctx  context.Context // over when the call has ended, or need not go on
	end  context.CancelFunc
	live int // how many of its leases are still held
}

func newFlight(live int) *flight {
	ctx, end := context.WithCancel(context.Background())
	return &flight{ctx: ctx, end: end, live: live}
}

// leave is called when one of the leases is over. With the last of them the call
// is of no use to anybody.
func (f *flight) leave() {
	if f.live--; f.live == 0 {
		f.end()
	}
}

// renewing is what the keeper knows of a lease. It is guarded by keeper.mu.
type renewing struct {
	index    int32         // in the schedule; -1 if not in it
	failures int32         // in a row
	due      clock.Instant // when to look at the lease: to renew it, or at its deadline
	renewAt  clock.Instant // when to renew it; 0 for never, or not before the flight ends
	flight   *flight       // the call that carries it; nil if none
	err      error         // the last failure
	paused   bool          // its count is being changed: no renewal meanwhile

	// reporting is true while the observer or the log is busy with a renewal of the
	// lease. Others are not reported meanwhile: a slow observer must not fall behind
	// without end.
	reporting bool
}

// grounded says that a renewal may be sent.
func (r *renewing) grounded() bool { return r.flight == nil && !r.paused && r.renewAt != 0 }

// plan sets when the keeper looks at the lease next. keeper.mu is held.
func (l *lease) plan() {
	l.renewing.due = l.until()
	if l.renewing.grounded() {
		l.renewing.due = min(l.renewing.due, l.renewing.renewAt)
	}
}

// schedule is a heap of leases by due.
type schedule []*lease

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].renewing.due < s[j].renewing.due }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].renewing.index, s[j].renewing.index = int32(i), int32(j)
}

func (s *schedule) Push(x any) {
	l := x.(*lease)
	l.renewing.index = int32(len(*s))
	*s = append(*s, l)
}

func (s *schedule) Pop() any {
	old := *s
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	l.renewing.index = -1
	return l
}
