package holdfast

import (
	"context"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
)

// Lock is a lock that is held, until Unlock or until it is lost. Its methods may
// be called from any goroutine: a Lock belongs to whoever has it.
//
// A Lock that becomes unreachable without Unlock is no longer renewed, and the
// Locker's logger is told. That is a net for mistakes, not a way to unlock.
type Lock struct {
	hold  *hold
	net   runtime.Cleanup
	owned *owned // how often a call tree holds it; nil if it is not reentrant

	releasing deadline.Context // the context of the release: part of the Lock, for less garbage
}

func newLock(h *hold) *Lock {
	k := &Lock{hold: h}
	k.net = runtime.AddCleanup(k, func(h *hold) { h.dropped() }, h)
	return k
}

// Name returns the name of the lock.
func (k *Lock) Name() string { return k.hold.lease.name }

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
func (k *Lock) Remaining() time.Duration { return k.hold.remaining() }

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
// over. It waits 3s at most for a store that does not answer, and no longer than the
// lease; then it returns an error that says so, while the release goes on in the
// background for as long as the store may keep the lock, which is one TTL at most;
// Locker.Drain waits for it.
//
// Under WithOwner the lock is given back by as many Unlock as there were Lock.
func (k *Lock) Unlock() error {
	if k == nil {
		return ErrUnlocked
	}
	if k.owned != nil {
		return k.owned.unlock()
	}
	return k.release()
}
