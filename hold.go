package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// hold is a granted claim. The keeper, the gate and contexts refer to it; the
// user has a *Lock that refers to it, so that a Lock that was dropped without
// Unlock can be noticed.
type hold struct {
	locker *Locker
	token  uint64
	kind   kind
	leased bool // its end is fixed: proven, not extended
	since  time.Time
	place  *gate // the queue that the hold keeps waiting; nil if none

	mu       sync.Mutex
	claim    driver.Claim
	proven   moment    // start of the last call that proved the hold
	ends     time.Time // until then the store keeps it for certain
	deadline time.Time // when the hold counts as lost: Margin before that
	err      error     // nil while held
	vacated  bool
	cleaned  bool // the clean-up after a loss was started
	contexts map[*derived]struct{}

	renewing renewing // the keeper's; guarded by keeper.mu
}

// derived is a context made by Lock.Context that has not ended yet.
type derived struct{ cancel context.CancelCauseFunc }

func newHold(a *acquisition, start moment, deadline time.Time, out driver.Outcome) *hold {
	return &hold{
		locker: a.locker, token: out.Token, leased: a.req.leased, since: time.Now(), kind: a.kind,
		claim: a.claim, proven: start, ends: start.mono.Add(out.ValidFor), deadline: deadline,
		renewing: renewing{index: -1},
	}
}

// state returns nil while held. It compares clocks itself rather than trust a
// timer that may fire late.
func (h *hold) state() error {
	now := time.Now()
	h.mu.Lock()
	err, over, doubt := h.err, !now.Before(h.deadline), h.suspended(now)
	h.mu.Unlock()
	switch {
	case err != nil:
		return err
	case over:
		return h.expire()
	case doubt:
		h.locker.keeper.hurry(h)
		return fmt.Errorf("lock %q: %w", h.claim.Name, errSuspended)
	}
	return nil
}

// errSuspended says that the wall clock ran ahead of the monotonic clock.
var errSuspended = errors.New("the wall clock ran past the end of the lease (a suspended machine?); asking the store whether the lock is still held")

// suspended says that by the wall clock the lease is over although it is not by
// the monotonic clock. Go's monotonic clock stands still while a machine is
// suspended, and the wall clock may just have been set: only the store knows.
// The mutex is held.
func (h *hold) suspended(now time.Time) bool {
	return h.locker.ahead(h.proven) > h.deadline.Sub(now)
}

// remaining returns how long the hold lasts if it is not renewed; 0 if it is
// over.
func (h *hold) remaining(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return 0
	}
	return max(h.deadline.Sub(now), 0)
}

// renewed records that a call which started at start proved the hold. A fixed
// lease is not extended by it.
func (h *hold) renewed(start moment, validFor time.Duration) (margin time.Duration, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return 0, false
	}
	margin = time.Until(h.deadline)
	if margin <= 0 {
		return 0, false // too late: the keeper is about to say so
	}
	h.proven = start
	if !h.leased {
		h.ends = start.mono.Add(validFor)
		h.deadline = h.ends.Add(-h.locker.margin)
	}
	return margin, true
}

// expire ends a hold whose deadline has passed.
func (h *hold) expire() error {
	reason, cause := driver.Unreachable, h.locker.keeper.trouble(h)
	if h.leased || cause == nil {
		reason = driver.Expired
	}
	return h.lose(reason, cause)
}

// lose ends the hold because the lock is lost, once, and returns why it is over.
// Nothing is sent to the store: what is left of the lease is the holder's time
// to stop.
func (h *hold) lose(reason driver.Reason, cause error) error {
	err, first := h.end(&LostError{Name: h.claim.Name, Reason: reason, Cause: cause})
	if first {
		h.locker.keeper.remove(h)
		h.vacate()
		h.locker.background.Go(func() { h.locker.reportLoss(h, reason, err) })
	}
	return err
}

// end makes err the state of a hold that is held, and ends its contexts with it.
// It returns the state and whether it was this call that set it.
func (h *hold) end(err error) (state error, first bool) {
	h.mu.Lock()
	if h.err != nil {
		defer h.mu.Unlock()
		return h.err, false
	}
	h.err = err
	contexts := h.contexts
	h.contexts = nil
	h.mu.Unlock()
	for d := range contexts {
		d.cancel(err)
	}
	return err, true
}

// vacate lets the next goroutine of this process ask for the name.
func (h *hold) vacate() {
	h.mu.Lock()
	done := h.vacated
	h.vacated = true
	h.mu.Unlock()
	if !done && h.place != nil {
		h.place.vacate()
	}
}

// derive returns a context that ends with parent or with the hold.
func (h *hold) derive(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if err := h.state(); err != nil && !errors.Is(err, errSuspended) {
		cancel(err)
		return ctx
	}
	d := &derived{cancel: cancel}
	h.mu.Lock()
	err := h.err
	if err == nil {
		if h.contexts == nil {
			h.contexts = make(map[*derived]struct{})
		}
		h.contexts[d] = struct{}{}
	}
	h.mu.Unlock()
	if err != nil {
		cancel(err)
		return ctx
	}
	// A holder that leads for months serves many requests: forget each context
	// when its request is over.
	context.AfterFunc(ctx, func() { h.forget(d) })
	return ctx
}

func (h *hold) forget(d *derived) {
	h.mu.Lock()
	delete(h.contexts, d)
	h.mu.Unlock()
	d.cancel(nil)
}

// current returns the claim as the next call should send it.
func (h *hold) current(now time.Time) driver.Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.claim
	if h.leased {
		c.TTL = max(h.ends.Sub(now), time.Millisecond)
	}
	return c
}
