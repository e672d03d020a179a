package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// hold is a lease in the hands of one holder. The queue and contexts
// refer to it; the user has a *Lock that refers to it, so that a Lock that was
// dropped without Unlock can be noticed.
type hold struct {
	lease *lease
	token uint64
	since clock.Instant

	// Guarded by lease.mu.
	err      error // nil while held
	taken    bool  // somebody has, or had, a Lock of it
	contexts map[*derived]struct{}
}

// derived is a context made by Lock.Context that has not ended yet.
type derived struct{ cancel context.CancelCauseFunc }

func cancelAll(contexts map[*derived]struct{}, err error) {
	for d := range contexts {
		d.cancel(err)
	}
}

// state returns nil while held.
func (h *hold) state() error { return h.lease.state(h) }

// ended returns why the hold is over, nil if nobody has said so yet.
func (h *hold) ended() error {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.err
}

// over says that a state is one that does not change any more.
func over(state error) bool { return state != nil && !errors.Is(state, errSuspended) }

// end ends the hold and its lease because the holder is done. It returns why it
// is over and whether it was this call that ended it.
func (h *hold) end() (state error, first bool) {
	ended, contexts, err := h.lease.finish(h, ErrUnlocked)
	cancelAll(contexts, err)
	return err, ended != nil
}

// derive returns a context that ends with parent or with the hold.
func (h *hold) derive(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if err := h.state(); over(err) {
		cancel(err)
		return ctx
	}
	d := &derived{cancel: cancel}
	if err := h.remember(d); err != nil {
		cancel(err)
		return ctx
	}
	// A holder that leads for months serves many requests: forget each context
	// when its request is over.
	context.AfterFunc(ctx, func() { h.forget(d) })
	return ctx
}

// remember makes d end with the hold, or returns why it is over.
func (h *hold) remember(d *derived) error {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	if h.contexts == nil {
		h.contexts = make(map[*derived]struct{})
	}
	h.contexts[d] = struct{}{}
	return nil
}

func (h *hold) forget(d *derived) {
	h.lease.mu.Lock()
	delete(h.contexts, d)
	h.lease.mu.Unlock()
	d.cancel(nil)
}

// take makes the hold that of a Lock, unless it is over by then.
func (h *hold) take() bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	h.taken = h.err == nil
	return h.taken
}

// unseen says that nobody ever had a Lock of the hold: who was to have it had given
// up. No event tells of its end, as none told of its beginning.
func (h *hold) unseen() bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return !h.taken
}

// held returns for how long it has been held.
func (h *hold) held() time.Duration { return h.lease.locker.clock.Now() - h.since }

// remaining returns how long the hold lasts if it is not renewed; 0 if it is
// over.
func (h *hold) remaining() time.Duration {
	l := h.lease
	now := l.locker.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.err != nil {
		return 0
	}
	return max(l.deadline-now, 0)
}
