package holdfast

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// renewPerTTL is how often a hold is renewed in each TTL: two renewals may
	// fail in a row before the lease is in danger.
	renewPerTTL = 3
	// gridPerPeriod is how many moments of a period renewals are gathered at, so
	// that many holds travel in few calls and yet spread over the period.
	gridPerPeriod = 20
	// batchSize bounds the claims in one call of Renew.
	batchSize = 500
	// tickCap bounds the keeper's sleep: a suspended machine is noticed by then.
	tickCap = time.Second
)

// keeper renews all holds of a Locker and ends those whose deadline passes. One
// goroutine serves any number of holds; it starts with the first and ends with
// the last. Calls to the store run beside it, a batch in each, so that neither a
// store that hangs nor a claim that fails delays another's renewal or deadline.
//
// Lock order: keeper.mu before hold.mu.
type keeper struct {
	locker *Locker
	epoch  time.Time

	mu    sync.Mutex
	holds schedule
	awake bool          // the goroutine runs
	wake  chan struct{} // tells it that the schedule changed
}

func (k *keeper) init(l *Locker) {
	k.locker = l
	k.epoch = time.Now()
	k.wake = make(chan struct{}, 1)
}

// period is the time between two renewals.
func (k *keeper) period() time.Duration { return k.locker.ttl / renewPerTTL }

// onGrid moves a moment back to one at which renewals are gathered.
func (k *keeper) onGrid(t time.Time) time.Time {
	return k.epoch.Add(t.Sub(k.epoch).Truncate(max(k.period()/gridPerPeriod, 1)))
}

// add takes on a hold. Its first renewal comes at a random moment between one
// third of a period and the whole of it, so that locks taken together are not
// renewed together ever after.
func (k *keeper) add(h *hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !h.leased {
		h.renewing.renewAt = k.onGrid(h.proven.mono.Add(k.period() - rand.N(k.period()*2/3+1))) //nolint:gosec // spreads load
	}
	h.plan()
	heap.Push(&k.holds, h)
	switch {
	case !k.awake:
		k.awake = true
		go k.run()
	case k.holds[0] == h:
		k.poke()
	}
}

// remove drops a hold. A call that carries it may still be under way.
func (k *keeper) remove(h *hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.renewing.index < 0 {
		return
	}
	heap.Remove(&k.holds, h.renewing.index)
	if len(k.holds) == 0 {
		k.poke()
	}
	if f := h.renewing.flight; f != nil {
		f.leave()
	}
}

// hurry makes the renewal of h due now.
func (k *keeper) hurry(h *hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewAt(h, time.Now())
	k.poke()
}

// renewAt plans the next renewal of h. The mutex is held.
func (k *keeper) renewAt(h *hold, t time.Time) {
	h.renewing.renewAt = t
	if h.renewing.index >= 0 {
		h.plan()
		heap.Fix(&k.holds, h.renewing.index)
	}
}

// pause keeps the keeper from renewing h until resume, and waits for a call that
// is under way: it carries the old count.
func (k *keeper) pause(ctx context.Context, h *hold) error {
	k.mu.Lock()
	h.renewing.paused = true
	flight := h.renewing.flight
	k.mu.Unlock()
	if flight == nil {
		return nil
	}
	select {
	case <-flight.ctx.Done():
		return nil
	case <-ctx.Done():
		k.resume(h)
		return ctx.Err()
	}
}

func (k *keeper) resume(h *hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.renewing.paused = false
	k.renewAt(h, h.renewing.renewAt)
	k.poke()
}

// errNoAnswer is the trouble of a hold whose renewal hangs.
var errNoAnswer = errors.New("no answer to the renewal")

// trouble returns what has gone wrong with h's renewals since the last that
// succeeded, nil if nothing has.
func (k *keeper) trouble(h *hold) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.renewing.err == nil && h.renewing.flight != nil {
		return errNoAnswer
	}
	return h.renewing.err
}

func (k *keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run is the keeper's goroutine.
func (k *keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	clock := newSuspendClock(k.locker)
	for {
		due, over, nap, more := k.collect(time.Now(), clock.jumped())
		for len(due) > 0 {
			n := min(len(due), batchSize)
			go k.renew(due[:n:n])
			due = due[n:]
		}
		for _, h := range over {
			_ = h.expire() // what it returns, the holder hears from its Lock
		}
		if !more {
			return
		}
		timer.Reset(nap)
		select {
		case <-timer.C:
		case <-k.wake:
		}
	}
}

// collect takes from the schedule what is due: holds to renew, which are now in
// flight, and holds that are over. It says how long to sleep, and whether there
// is anything left to do.
func (k *keeper) collect(now time.Time, jumped bool) (due, over []*hold, nap time.Duration, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if jumped {
		k.allDue(now)
	}
	var f *flight
	for len(k.holds) > 0 && !k.holds[0].renewing.due.After(now) {
		h := k.holds[0]
		switch {
		case !now.Before(h.until()):
			heap.Pop(&k.holds)
			if f := h.renewing.flight; f != nil {
				f.leave()
			}
			over = append(over, h)
			continue
		case h.renewing.grounded():
			if len(due)%batchSize == 0 {
				f = newFlight()
			}
			f.live++
			h.renewing.flight, h.renewing.renewAt = f, time.Time{}
			due = append(due, h)
		}
		h.plan()
		heap.Fix(&k.holds, 0)
	}
	if len(k.holds) == 0 {
		k.awake = false
		return due, over, 0, false
	}
	return due, over, min(tickCap, time.Until(k.holds[0].renewing.due)), true
}

// allDue plans the renewal of every hold for now. The mutex is held.
func (k *keeper) allDue(now time.Time) {
	for _, h := range k.holds {
		h.renewing.renewAt = now
		h.plan()
	}
	heap.Init(&k.holds)
}

// flight is a call of Renew under way. keeper.mu guards it.
type flight struct {
	ctx  context.Context // over when the call has ended, or need not go on
	end  context.CancelFunc
	live int // how many of its holds are still held
}

func newFlight() *flight {
	ctx, end := context.WithCancel(context.Background())
	return &flight{ctx: ctx, end: end}
}

// leave is called when one of the holds is over. With the last of them the call
// is of no use to anybody.
func (f *flight) leave() {
	if f.live--; f.live == 0 {
		f.end()
	}
}

// renewing is what the keeper knows of a hold. It is guarded by keeper.mu.
type renewing struct {
	index    int       // in the schedule; -1 if not in it
	due      time.Time // when to look at the hold: to renew it, or at its deadline
	renewAt  time.Time // when to renew it; zero for never, or not before the flight ends
	flight   *flight   // the call that carries it; nil if none
	paused   bool      // its count is being changed: no renewal meanwhile
	failures int       // in a row
	err      error     // the last of them
}

// grounded says that a renewal may be sent.
func (r *renewing) grounded() bool { return r.flight == nil && !r.paused && !r.renewAt.IsZero() }

// plan sets when the keeper looks at the hold next. keeper.mu is held.
func (h *hold) plan() {
	h.renewing.due = h.until()
	if h.renewing.grounded() && h.renewing.renewAt.Before(h.renewing.due) {
		h.renewing.due = h.renewing.renewAt
	}
}

// until returns the hold's deadline.
func (h *hold) until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

// schedule is a heap of holds by due.
type schedule []*hold

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].renewing.due.Before(s[j].renewing.due) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].renewing.index, s[j].renewing.index = i, j
}

func (s *schedule) Push(x any) {
	h := x.(*hold)
	h.renewing.index = len(*s)
	*s = append(*s, h)
}

func (s *schedule) Pop() any {
	old := *s
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	h.renewing.index = -1
	return h
}

// suspendClock notices that the wall clock ran ahead of the monotonic clock,
// which stands still while the machine is suspended.
type suspendClock struct {
	locker *Locker
	last   moment
}

func newSuspendClock(l *Locker) *suspendClock { return &suspendClock{locker: l, last: l.now()} }

// jumped reports whether that happened since the last call. A small step is the
// business of Options.Margin.
func (c *suspendClock) jumped() bool {
	ahead := c.locker.ahead(c.last)
	c.last = c.locker.now()
	return ahead > c.locker.margin/2
}
