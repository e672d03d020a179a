package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// worker is a goroutine of a process that takes locks.
type worker struct {
	*process
	id     int
	random *rand.Rand
	waits  bool      // the worker takes locks with Lock alone, and releases them at once
	ends   time.Time // when the context of the call ends; zero if it ends only with the process
}

func (w *worker) String() string { return fmt.Sprintf("p%d w%d", w.process.id, w.id) }

func (w *worker) below(d time.Duration) time.Duration {
	return w.s.onGrid(time.Duration(w.random.Int64N(int64(max(d, 1)))))
}

func (w *worker) run() {
	s := w.s
	for {
		select {
		case <-s.workIsOver:
			return
		case <-w.calls.Done():
			return
		case <-time.After(w.below(2 * s.pause)):
		}
		if rest := w.resting(); rest > 0 {
			time.Sleep(rest)
			continue
		}
		ctx, cancel := w.context()
		switch n := w.random.IntN(100); {
		case n < 8:
			w.takeSeveral(ctx)
		case n < 16:
			w.takeTwice(ctx)
		default:
			w.take(ctx)
		}
		cancel()
	}
}

// context returns the context of a call. It ends with the process, and usually earlier: at a
// deadline, when it is cancelled after a random time, or when all callers of the process give up.
func (w *worker) context() (context.Context, context.CancelFunc) {
	s, n, callers := w.s, w.random.IntN(10), w.ofCallers()
	d := w.below([]time.Duration{2 * s.ttl, s.ttl, 10 * s.latency}[w.random.IntN(3)])
	w.ends = time.Now().Add(d)
	switch {
	case n < 4:
		w.ends = time.Time{}
		return context.WithCancel(callers)
	case n < 7:
		return context.WithDeadline(callers, w.ends)
	default:
		ctx, cancel := context.WithCancel(callers)
		stop := time.AfterFunc(d, cancel)
		return ctx, func() { stop.Stop(); cancel() }
	}
}

// request is one call for a lock.
type request struct {
	*target
	by    *worker
	ctx   context.Context
	began time.Time
	try   bool
	opts  []holdfast.Option
	wait  time.Duration // of the option Wait; negative without it

	lease, atMost, atLeast time.Duration // of these options; 0 without the option
}

// plain returns a request without options.
func (w *worker) plain(ctx context.Context, t *target) request {
	return request{target: t, by: w, ctx: ctx, began: time.Now(), wait: -1}
}

// request returns a request with random options, for a random name.
func (w *worker) request(ctx context.Context) request {
	s := w.s
	r := w.plain(ctx, s.names[w.random.IntN(len(s.names))])
	shortest := max(20*time.Millisecond, 20*s.latency, s.ttl/4) // a lease must outlast a call
	switch n := w.random.IntN(24); {
	case n < 2:
		r.lease = max(w.below(2*s.ttl), shortest)
		r.opts = append(r.opts, holdfast.FixedLease(r.lease))
	case n == 2:
		r.atMost = max(w.below(5*s.ttl), shortest)
		r.opts = append(r.opts, holdfast.AtMost(r.atMost))
	case n < 6 && r.kind == mutex && s.info.Caps.AtLeast:
		r.atLeast = w.below(longestAtLeast(s.ttl))
		if s.lively { // else the name is kept nearly all the time
			r.atLeast = w.below(20 * time.Millisecond)
		}
		r.opts = append(r.opts, holdfast.AtLeast(r.atLeast))
	case n == 6:
		r.opts = append(r.opts, holdfast.Note("a call"))
	}
	switch n := w.random.IntN(10); {
	case w.waits:
	case n < 2:
		r.try = true
	case n < 4:
		r.wait = w.below(s.ttl)
		r.opts = append(r.opts, holdfast.Wait(r.wait))
	}
	return r
}

// longestAtLeast returns the bound of random values of AtLeast. It is longer than a lease.
func longestAtLeast(ttl time.Duration) time.Duration { return ttl * 3 / 2 }

// lock takes the lock of a request. It returns nil if the call returned an error.
func (w *worker) lock(r request) *hold {
	over := w.s.waits(&r)
	lock, as, err := w.acquire(r)
	over()
	if err != nil {
		w.checkRefusal(r, err)
		return nil
	}
	return w.s.begin(r, as, lock)
}

func (w *worker) acquire(r request) (lock *holdfast.Lock, as side, err error) {
	calls := 6
	if w.s.lively { // a table that is polled is read about ten times during a hold of 60 ms
		calls += 10
	}
	w.link.allow(calls)
	m, s, as := w.mutex(r.target), w.locker.Semaphore(r.name, r.permits), exclusive
	acquire, try := m.Lock, m.TryLock
	switch {
	case r.kind == semaphore:
		acquire, try, as = s.Acquire, s.TryAcquire, permit
	case r.kind == readWrite && w.random.IntN(3) > 0:
		read := w.locker.RWMutex(r.name).Read
		acquire, try, as = read.Lock, read.TryLock, reader
	}
	if r.try {
		acquire = try
	}
	lock, err = acquire(r.ctx, r.opts...)
	return lock, as, err
}

// mutex returns the exclusive lock of a target.
func (w *worker) mutex(t *target) *holdfast.Mutex {
	switch l := w.locker; t.kind {
	case fair:
		return l.FairMutex(t.name)
	case readWrite:
		return l.RWMutex(t.name).Write
	default:
		return l.Mutex(t.name)
	}
}

// take takes one lock, holds it for a random time, and releases or drops it.
func (w *worker) take(ctx context.Context) {
	h := w.lock(w.request(ctx))
	if h == nil {
		return
	}
	w.work(h)
	if w.random.IntN(40) == 0 && w.alive() && !w.s.lively {
		w.s.drop(h)
	} else {
		w.s.unlock(h)
	}
}

// work holds a lock for a random time. A worker may notice late that its lock was lost.
func (w *worker) work(h *hold) {
	s := w.s
	d := w.below(s.hold)
	if !s.lively {
		d = w.below([]time.Duration{0, 0, 0, 5 * time.Millisecond, 5 * time.Millisecond, s.ttl / 8, s.ttl / 8, s.ttl * 3 / 2, 4 * s.ttl}[w.random.IntN(9)])
	}
	if d == 0 || w.waits {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.held.Done():
		if w.random.IntN(2) == 0 && w.alive() {
			time.Sleep(w.below(s.ttl / 4))
		}
	case <-w.calls.Done():
	case <-s.workIsOver:
	}
}

// takeTwice takes a lock twice with the same owner.
func (w *worker) takeTwice(ctx context.Context) {
	s := w.s
	r := w.plain(holdfast.WithOwner(ctx), w.request(ctx).target)
	if r.kind == semaphore || r.kind == readWrite {
		return
	}
	h := w.lock(r)
	if h == nil {
		return
	}
	r.try = w.random.IntN(2) == 0
	again, _, _ := w.acquire(r)
	w.work(h)
	switch {
	case again == nil:
	case again != h.lock: // the first was lost, and this is a new one
		if h.lock.Err() == nil {
			s.violate("a re-entry of %s is another lock", h.name)
		}
		s.unlock(s.begin(r, h.side, again))
	case w.alive():
		if err := again.Unlock(); err == nil && h.lock.Err() != nil && !errors.Is(h.lock.Err(), holdfast.ErrLost) {
			s.violate("after one of two Unlocks of %s: %v", h.name, h.lock.Err())
		}
	}
	s.unlock(h)
}

// takeSeveral takes several locks at once.
func (w *worker) takeSeveral(ctx context.Context) {
	s := w.s
	var mutexes []*holdfast.Mutex
	s.mu.Lock()
	for _, t := range s.names {
		if w.random.IntN(2) > 0 && t.kind != semaphore {
			mutexes = append(mutexes, w.mutex(t))
			t.several++
			defer s.tookSeveral(t)
		}
	}
	s.mu.Unlock()
	if len(mutexes) == 0 {
		return
	}
	r := w.plain(ctx, &target{name: "several"})
	if w.random.IntN(3) == 0 {
		r.wait = w.below(s.ttl)
		r.opts = append(r.opts, holdfast.Wait(r.wait))
	}
	w.link.allow(6 * len(mutexes))
	locks, err := holdfast.LockAll(ctx, mutexes, r.opts...)
	if err != nil {
		if !errors.Is(err, holdfast.ErrLost) { // of one, while another was waited for
			w.checkRefusal(r, err)
		}
		return
	}
	var holds []*hold
	for _, lock := range locks {
		i := slices.IndexFunc(s.names, func(t *target) bool { return t.name == lock.Name() })
		r.target = s.names[i]
		h := s.begin(r, exclusive, lock)
		defer h.cancel()
		holds = append(holds, h)
	}
	w.work(holds[0])
	for _, h := range holds {
		s.end(h)
	}
	if w.alive() {
		s.note("%v unlocked several: %v", w, locks.Unlock())
	}
}

// checkRefusal checks the error of a call that got no lock, and how long the call took.
func (w *worker) checkRefusal(r request, err error) {
	s := w.s
	if !w.alive() {
		return
	}
	s.note("%v has not got %s: %v", w, r.name, err)
	took, busy := time.Since(r.began), errors.Is(err, holdfast.ErrBusy)
	ended := r.ctx.Err() != nil && errors.Is(err, r.ctx.Err())
	switch {
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrUnlocked), errors.Is(err, holdfast.ErrDeadlock), errors.Is(err, holdfast.ErrMismatch):
		s.violate("a call for %s returned %v", r.name, err)
	case ended, busy && (r.try || r.wait >= 0):
	case !busy && r.lease+r.atMost > 0 && !s.calm(): // "a lease that is too short for the store ends in an error"
	case r.ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		s.violate("a call for %s ended with the error of a context, and its own goes on: %v", r.name, err)
	case busy, !r.try && r.wait < 0:
		s.violate("Lock of %s gave up: %v; its context: %v", r.name, err, r.ctx.Err())
	case r.ctx.Err() == nil && r.wait < 0 && s.calm() && s.quick() && !s.overdueAfter(r.began):
		s.violate("a call for %s has no answer in calm: %v", r.name, err)
	}
	const late, call = 50 * time.Millisecond, 20 * time.Millisecond // a call takes that at least
	least := call
	if r.name == "several" { // one call for all names, and one for the first that is not free
		least += call
	}
	least *= time.Duration(s.attempts())
	if limit := max(r.wait, least) + late + min(500*time.Millisecond, s.ttl/10, r.wait); r.wait > 0 && r.ctx.Err() == nil && took > limit {
		s.violate("Wait(%v) for %s took %v: %v", r.wait, r.name, took, err)
	}
	if after := time.Since(w.ends); !w.ends.IsZero() && after > late {
		s.violate("a call for %s returned %v after the end of its context: %v", r.name, after, err)
	}
}
