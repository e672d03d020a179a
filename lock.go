package holdfast

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Lock is a lock that is held, until Unlock or until it is lost. Its methods may
// be called from any goroutine: a Lock belongs to whoever has it.
//
// A Lock that becomes unreachable without Unlock is no longer renewed, and the
// Locker's logger is told. That is a net for mistakes, not a way to unlock.
type Lock struct {
	hold *hold
	net  runtime.Cleanup
	tree *tree // the call tree that may re-enter it; nil if it is not reentrant
}

func newLock(h *hold) *Lock {
	k := &Lock{hold: h}
	k.net = runtime.AddCleanup(k, func(h *hold) { h.dropped() }, h)
	return k
}

// Name returns the name of the lock.
func (k *Lock) Name() string { return k.hold.claim.Name }

// Token returns the fencing token: larger than that of every earlier holder of
// the name, and constant while the lock is held. Send it along with every write
// and let the resource refuse a smaller token than the largest it has seen. It
// is 0 if the store has no tokens.
func (k *Lock) Token() uint64 { return k.hold.token }

// Err returns nil while the lock is held, then forever a *LostError, which is
// ErrLost, or ErrUnlocked. It asks no store: it compares the clock with the end
// of the lease. After the machine was suspended it may say, until the store was
// asked, that the lock is in doubt, with an error that is neither.
func (k *Lock) Err() error {
	if k == nil {
		return ErrUnlocked
	}
	return k.hold.state()
}

// Remaining returns how long the lock is held if it is not renewed again: what is
// left of the lease, less Options.Margin. It is 0 when the lock is lost or
// unlocked. An operation that needs longer should not begin. It counts on the
// monotonic clock, so it means nothing while Err says that the lock is in doubt.
func (k *Lock) Remaining() time.Duration { return k.hold.remaining(time.Now()) }

// Context returns a context that is ctx for as long as the lock is held. It ends
// with ctx, when the lock is lost and when it is unlocked; context.Cause then
// returns ctx's cause, ErrLost or ErrUnlocked. Locking the same name with it
// answers ErrDeadlock, unless WithOwner allows to re-enter.
//
// The lock keeps track of each context until ctx ends or the lock is over: give
// each piece of work a context of its own that ends with it, rather than derive
// many from one that lives for long.
func (k *Lock) Context(ctx context.Context) context.Context {
	return withHeld(k.hold.derive(ctx), k)
}

// Unlock gives the lock back. It returns ErrLost if the lock was lost before,
// and ErrUnlocked if it was unlocked before; calling it is harmless in every
// case, also on a nil Lock.
//
// Unlock takes no context, so that a deferred call works when the caller's is
// over. It waits a few seconds at most for a store that does not answer, and
// never longer than the lease; then it returns an error that says so, while the
// release goes on in the background until one TTL has passed; Locker.Drain waits
// for it.
//
// Under WithOwner the lock is given back by as many Unlock as there were Lock.
func (k *Lock) Unlock() error {
	if k == nil {
		return ErrUnlocked
	}
	if k.tree != nil {
		return k.tree.unlock(k)
	}
	return k.release()
}

// release ends the hold and tells the store.
func (k *Lock) release() error {
	k.net.Stop()
	err := k.hold.unlock()
	runtime.KeepAlive(k)
	return err
}

// unlockWait is how long Unlock waits for an answer, if the lease is not over
// before.
const unlockWait = 3 * time.Second

func (h *hold) unlock() error {
	l := h.locker
	if err := h.state(); err != nil && !errors.Is(err, errSuspended) {
		return h.unlockEnded(err)
	}
	if err, first := h.end(ErrUnlocked); !first {
		return h.unlockEnded(err)
	}
	l.keeper.remove(h)
	err := h.giveBack()
	h.vacate()
	l.reportRelease(h, err)
	return err
}

// unlockEnded is Unlock of a lock that is over. If the lease may still run in
// the store, the holder's word that it is done lets others in sooner.
func (h *hold) unlockEnded(err error) error {
	var lost *LostError
	if !errors.As(err, &lost) {
		return fmt.Errorf("unlock %q: %w", h.claim.Name, err)
	}
	left := time.Until(h.ends)
	if left > 0 && (lost.Reason == driver.Unreachable || lost.Reason == driver.Expired) && h.once() {
		c := h.claim
		c.TTL = left
		h.locker.cleanUp(c)
	}
	return fmt.Errorf("unlock: %w", err)
}

// once reports true the first time.
func (h *hold) once() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !h.cleaned
	h.cleaned = true
	return first
}

// giveBack tells the store that the lock is free.
func (h *hold) giveBack() error {
	l, c := h.locker, h.claim
	ctx, cancel := context.WithTimeout(context.Background(), min(c.TTL, unlockWait))
	defer cancel()
	err := l.settle(ctx, c)
	switch {
	case err == nil:
		return nil
	case isGone(err):
		return fmt.Errorf("unlock: %w", &LostError{Name: c.Name, Reason: reasonOf(err), Cause: err})
	}
	l.cleanUp(c)
	return fmt.Errorf("unlock %q: not confirmed, goes on in the background; the lease ends in %s: %w",
		c.Name, coarse(max(time.Until(h.ends), 0)), err)
}

// dropped is called when the user's Lock was collected without Unlock.
func (h *hold) dropped() {
	if _, first := h.end(ErrUnlocked); !first {
		return
	}
	h.locker.keeper.remove(h)
	h.vacate()
	h.locker.log.Error("a lock was dropped without Unlock; it is no longer renewed",
		"lock", h.claim.Name, "token", h.token, "held", time.Since(h.since))
}
