package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
)

// worker is a goroutine of a process that takes locks.
type worker struct {
	process *process
	id      int
	random  *rand.Rand
	waits   bool      // it takes locks with Lock alone, and releases them at once
	ends    time.Time // when the context of its call ends, zero for an end that is not planned
}

func (w *worker) below(d time.Duration) time.Duration {
	return w.process.s.onGrid(time.Duration(w.random.Int64N(int64(max(d, 1)))))
}

func (w *worker) run() {
	s := w.process.s
	for {
		select {
		case <-s.workIsOver:
			return
		case <-w.process.calls.Done():
			return
		case <-time.After(w.below(2 * s.pause)):
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

// context returns that of a call: it ends with the process, after a time, or in a moment.
func (w *worker) context() (context.Context, context.CancelFunc) {
	s, n := w.process.s, w.random.IntN(10)
	d := w.below([]time.Duration{2 * s.ttl, s.ttl, 10 * s.latency}[w.random.IntN(3)])
	w.ends = time.Now().Add(d)
	switch {
	case n < 4:
		w.ends = time.Time{}
		return context.WithCancel(w.process.calls)
	case n < 7:
		return context.WithDeadline(w.process.calls, w.ends)
	default:
		ctx, cancel := context.WithCancel(w.process.calls)
		stop := time.AfterFunc(d, cancel)
		return ctx, func() { stop.Stop(); cancel() }
	}
}

// request is one call for a lock.
type request struct {
	target
	ctx   context.Context
	began time.Time
	try   bool
	wait  time.Duration // negative without the option
	short bool          // its lease may be too short for a network in trouble
	opts  []holdfast.Option
}

// request returns one with random options, and the hold that it would become.
func (w *worker) request(ctx context.Context) (r request, h *hold) {
	s := w.process.s
	t := s.names[w.random.IntN(len(s.names))]
	r = request{target: t, ctx: ctx, wait: -1, began: time.Now()}
	h = &hold{name: t.name, permits: t.permits, by: w}
	shortest := max(20*time.Millisecond, 20*s.latency, s.ttl/4) // a lease must outlast a call
	switch n := w.random.IntN(24); {
	case n < 2:
		h.lease = max(w.below(2*s.ttl), shortest)
		r.opts, r.short = append(r.opts, holdfast.Lease(h.lease)), true
	case n == 2:
		h.atMost = max(w.below(5*s.ttl), shortest)
		r.opts, r.short = append(r.opts, holdfast.AtMost(h.atMost)), true
	case n < 6 && t.kind == mutex && s.info.Caps.AtLeast:
		h.atLeast = w.below(longestAtLeast(s.ttl))
		r.opts = append(r.opts, holdfast.AtLeast(h.atLeast))
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
	return r, h
}

// longestAtLeast is longer than a lease.
func longestAtLeast(ttl time.Duration) time.Duration { return ttl * 3 / 2 }

// lock asks for the lock of a request.
func (w *worker) lock(r request) (lock *holdfast.Lock, as side, err error) {
	w.process.link.allow(6)
	m, s, as := w.mutex(r.target), w.process.locker.Semaphore(r.name, r.permits), exclusive
	acquire, try := m.Lock, m.TryLock
	switch {
	case r.kind == semaphore:
		acquire, try, as = s.Acquire, s.TryAcquire, permit
	case r.kind == readWrite && w.random.IntN(3) > 0:
		read := w.process.locker.RWMutex(r.name).Read
		acquire, try, as = read.Lock, read.TryLock, reader
	}
	if r.try {
		acquire = try
	}
	lock, err = acquire(r.ctx, r.opts...)
	return lock, as, err
}

// mutex returns a target as what one worker at a time holds.
func (w *worker) mutex(t target) *holdfast.Mutex {
	switch l := w.process.locker; t.kind {
	case fair:
		return l.FairMutex(t.name)
	case readWrite:
		return l.RWMutex(t.name).Write
	default:
		return l.Mutex(t.name)
	}
}

// take takes one lock, keeps it for a while and releases it.
func (w *worker) take(ctx context.Context) {
	r, h := w.request(ctx)
	var err error
	if h.lock, h.side, err = w.lock(r); err != nil {
		w.checkRefusal(r, err)
		return
	}
	w.process.s.begin(h)
	w.work(h)
	if w.random.IntN(40) == 0 && w.process.alive() {
		w.process.s.drop(h)
	} else {
		w.process.s.unlock(h, h.lock.Unlock)
	}
}

// work keeps a lock for a while. A worker may notice late that it was lost.
func (w *worker) work(h *hold) {
	s := w.process.s
	d := w.below([]time.Duration{0, 0, 0, 5 * time.Millisecond, 5 * time.Millisecond, s.ttl / 8, s.ttl / 8, s.ttl * 3 / 2, 4 * s.ttl}[w.random.IntN(9)])
	if d == 0 || w.waits {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.ctx.Done():
		if w.random.IntN(2) == 0 && w.process.alive() {
			time.Sleep(w.below(s.ttl / 4))
		}
	case <-w.process.calls.Done():
	case <-s.workIsOver:
	}
}

// takeTwice takes a lock twice under one owner.
func (w *worker) takeTwice(ctx context.Context) {
	s := w.process.s
	r, h := w.request(holdfast.WithOwner(ctx))
	if r.kind == semaphore || r.kind == readWrite {
		return
	}
	r.try, r.wait, r.opts = false, -1, nil
	h.lease, h.atMost, h.atLeast = 0, 0, 0
	var err error
	if h.lock, h.side, err = w.lock(r); err != nil {
		w.checkRefusal(r, err)
		return
	}
	s.begin(h)
	r.try = w.random.IntN(2) == 0
	again, _, _ := w.lock(r)
	if again != nil {
		keep(again)
	}
	w.work(h)
	switch again {
	case nil:
	case h.lock:
		if !w.process.alive() {
			break
		}
		if err := again.Unlock(); err == nil && h.lock.Err() != nil && !errors.Is(h.lock.Err(), holdfast.ErrLost) {
			s.violate("after one of two Unlocks of %s: %v", h.name, h.lock.Err())
		}
	default: // the first was lost, and this is a new one
		if h.lock.Err() == nil {
			s.violate("a re-entry of %s is another lock", h.name)
		}
		next := &hold{name: h.name, side: h.side, by: w, lock: again}
		s.begin(next)
		s.unlock(next, again.Unlock)
	}
	s.unlock(h, h.lock.Unlock)
}

// takeSeveral takes several locks at once.
func (w *worker) takeSeveral(ctx context.Context) {
	s := w.process.s
	var mutexes []*holdfast.Mutex
	for _, t := range s.names {
		if w.random.IntN(2) > 0 && t.kind != semaphore {
			mutexes = append(mutexes, w.mutex(t))
		}
	}
	if len(mutexes) == 0 {
		return
	}
	r := request{target: target{name: "several"}, ctx: ctx, wait: -1, began: time.Now()}
	if w.random.IntN(3) == 0 {
		r.wait = w.below(s.ttl)
		r.opts = append(r.opts, holdfast.Wait(r.wait))
	}
	w.process.link.allow(6 * len(mutexes))
	locks, err := holdfast.LockAll(ctx, mutexes, r.opts...)
	if err != nil {
		if !errors.Is(err, holdfast.ErrLost) { // of one, while another was waited for
			w.checkRefusal(r, err)
		}
		return
	}
	var holds []*hold
	for _, lock := range locks {
		h := &hold{name: lock.Name(), side: exclusive, by: w, lock: lock}
		s.begin(h)
		holds = append(holds, h)
	}
	w.work(holds[0])
	for _, h := range holds {
		s.end(h)
	}
	if w.process.alive() {
		err := locks.Unlock()
		s.note("p%d w%d unlocked several: %v", w.process.id, w.id, err)
	}
	for _, h := range holds {
		h.cancel()
	}
}

// checkRefusal checks the error of a call that got no lock, and when it came.
func (w *worker) checkRefusal(r request, err error) {
	s := w.process.s
	if !w.process.alive() {
		return
	}
	s.note("p%d w%d has not got %s: %v", w.process.id, w.id, r.name, err)
	took, busy := time.Since(r.began), errors.Is(err, holdfast.ErrBusy)
	ended := r.ctx.Err() != nil && errors.Is(err, r.ctx.Err())
	switch {
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrUnlocked), errors.Is(err, holdfast.ErrDeadlock), errors.Is(err, holdfast.ErrMismatch):
		s.violate("a call for %s returned %v", r.name, err)
	case ended, busy && (r.try || r.wait >= 0):
	case !busy && r.short && !s.calm(): // "a lease that is too short for the store ends in an error"
	case r.ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		s.violate("a call for %s ended with the error of a context, and its own goes on: %v", r.name, err)
	case busy, !r.try && r.wait < 0:
		s.violate("Lock of %s gave up: %v; its context: %v", r.name, err, r.ctx.Err())
	case r.ctx.Err() == nil && r.wait < 0 && s.calm() && s.quick():
		s.violate("a call for %s has no answer in calm: %v", r.name, err)
	}
	const late, call = 50 * time.Millisecond, 20 * time.Millisecond // a call takes that at least
	least := call
	if r.name == "several" { // it has a call for all, and one for the first that is not free
		least += call
	}
	if limit := max(r.wait, least) + late + min(500*time.Millisecond, s.ttl/10, r.wait); r.wait > 0 && r.ctx.Err() == nil && took > limit {
		s.violate("Wait(%v) for %s took %v: %v", r.wait, r.name, took, err)
	}
	if after := time.Since(w.ends); !w.ends.IsZero() && after > late {
		s.violate("a call for %s returned %v after the end of its context: %v", r.name, after, err)
	}
}
