package holdfast

import (
	"context"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
)

// Lock is a held lock. It is held until Unlock or until it is lost. Any goroutine may call its
// methods, because a Lock does not belong to a goroutine.
//
// If a program drops a Lock without Unlock, the garbage collector finds the Lock. Holdfast then
// stops the renewals of the lock, and writes a line to Options.Logger. This shows mistakes, but
// it does not replace Unlock. A Lock is not collected while a context from its method Context
// has not ended. So a holder that only waits for the end of that context keeps the lock. The
// Locks of one LockAll are collected together, when the program has dropped all of them.
type Lock struct {
	hold  *hold
	net   runtime.Cleanup
	owned *owned // counts how often a call tree holds the lock; nil if the lock is not reentrant

	releasing deadline.Context // the context of the release; it is a field to save an allocation
}

func newLock(h *hold) *Lock {
	k := &Lock{hold: h}
	if c := h.lease.locker.collector; c != nil {
		c.Returned(k, h.dropped)
		return k
	}
	k.net = runtime.AddCleanup(k, func(h *hold) { h.dropped() }, h)
	return k
}

// holdRoom is memory for a lease and for its Lock. In the zero holdRoom there is none, so that
// both are allocated.
type holdRoom struct {
	lease *lease
	lock  *Lock
}

func (r holdRoom) newLease() *lease {
	if r.lease == nil {
		return new(lease)
	}
	return r.lease
}

// newLock returns the Lock of h. If its memory is that of the holdRoom, the Lock gets a net later,
// from shareNet.
func (r holdRoom) newLock(h *hold) *Lock {
	if r.lock == nil {
		return newLock(h)
	}
	r.lock.hold = h
	return r.lock
}

// stopNet is called before the Lock is unlocked. A shared net stays: when the garbage collector
// finds its Locks, those that were unlocked need nothing any more.
func (k *Lock) stopNet() {
	if k.hold.sharers == 0 {
		k.net.Stop()
	}
}

// Name returns the name of the lock, and "" for a nil Lock.
func (k *Lock) Name() string {
	if k == nil {
		return ""
	}
	return k.hold.lease.name
}

// Token returns the fencing token. It is larger than the token of every earlier holder of the
// name, and does not change while the lock is held. Send it with every write, and let the
// resource refuse a token that is smaller than the largest it has seen. If the store loses data,
// the next tokens may be smaller: docs/guarantees.md says when. Token returns 0 if the store has
// no tokens, and for a nil Lock.
func (k *Lock) Token() uint64 {
	if k == nil {
		return 0
	}
	return k.hold.token
}

// Err returns nil while the lock is held. Afterwards it always returns the same error:
// ErrUnlocked, or a *LostError, which is ErrLost. Err sends no request, because it only
// compares the clock with the end of the lease. After the machine was suspended, it is
// uncertain whether the lock is still held. Then Err returns another error until the store has
// confirmed the lock.
func (k *Lock) Err() error {
	if k == nil {
		return ErrUnlocked
	}
	return k.hold.state()
}

// Remaining returns how long the lock will be held without another renewal: the rest of the
// lease minus Options.Margin. It is 0 when the lock is lost or unlocked. Do not begin an
// operation that needs longer. Remaining uses the monotonic clock, so its result has no meaning
// while Err reports that the lock is uncertain.
func (k *Lock) Remaining() time.Duration {
	if k == nil {
		return 0
	}
	return k.hold.remaining()
}

// Context returns a context for the work under the lock. It is derived from ctx, and also ends
// when the lock is lost or unlocked. context.Cause then returns ctx's cause, ErrLost or
// ErrUnlocked. Locking the same name with that context returns ErrDeadlock, unless WithOwner
// allows re-entry.
//
// The lock stores each such context until ctx ends or the lock ends. So pass a ctx that ends
// with the piece of work. Do not derive many contexts from one ctx that lives long. The context
// of a nil Lock has ended.
func (k *Lock) Context(ctx context.Context) context.Context {
	derived := k.derive(ctx)
	if k == nil {
		return derived
	}
	return withHeldLock(derived, k)
}

// derive returns a context that ends when `parent` ends or the hold ends.
func (k *Lock) derive(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if err := k.Err(); over(err) {
		cancel(err)
		return ctx
	}
	h := k.hold
	d := &derived{cancel: cancel, keeps: k}
	if err := h.addContext(d); err != nil {
		cancel(err)
		return ctx
	}
	// A leader may hold its lock for months, and serve many requests, each with its own
	// context. So each context is dropped when its request ends.
	context.AfterFunc(ctx, func() { h.dropContext(d) })
	return ctx
}

// Unlock releases the lock and returns nil. It returns ErrLost if the lock was lost
// before, and ErrUnlocked if it was unlocked before. A call is always safe, also on a nil
// Lock.
//
// Unlock takes no context, so that a deferred call works after the caller's context has ended.
// If the store does not answer, Unlock waits for 3s at most, and not beyond the end of the
// lease. Then it returns an error that says that the release is not confirmed. The release
// continues in the background until the lease has ended in the store, one TTL at most.
// Locker.Drain waits for that release.
//
// With Options.AsyncUnlock, Unlock does not wait for the answer of the store.
//
// Under WithOwner, the lock is released when Unlock was called as often as Lock.
func (k *Lock) Unlock() error {
	return k.unlock(k != nil && k.hold.lease.locker.asyncUnlock)
}

// unlock is Unlock. If `async` is true, it need not wait for the answer of the store.
func (k *Lock) unlock(async bool) error {
	switch {
	case k == nil:
		return ErrUnlocked
	case k.owned != nil:
		return k.owned.unlock()
	}
	return k.release(async)
}

// release ends the hold: it passes the lease on to the next goroutine, or releases it
// in the store. If `async` is true, it does not wait for the answer of the store.
func (k *Lock) release(async bool) error {
	k.stopNet()
	h := k.hold
	var err error
	switch {
	case k.owned == nil && h.passOn():
		h.report(nil)
	case async:
		err = h.unlockAsync(&k.releasing)
	default:
		err = h.unlock(&k.releasing)
	}
	runtime.KeepAlive(k)
	return err
}

// heldLockKey is the key of the context value with the lock from which the context is derived.
type heldLockKey struct{}

// heldLock is a lock from which a context is derived. One context may be derived from several
// locks, one after the other. The field `parent` has the lock before this one; nil if this one
// is the first.
type heldLock struct {
	lock   *Lock
	parent *heldLock
}

func withHeldLock(ctx context.Context, k *Lock) context.Context {
	up, _ := ctx.Value(heldLockKey{}).(*heldLock)
	return context.WithValue(ctx, heldLockKey{}, &heldLock{lock: k, parent: up})
}

// holdsAlready reports whether ctx is derived from a lock of l with this name that is still held.
// If so, the caller would wait for itself. This can happen even with two read locks, because a
// store may refuse new readers while a writer waits. Permits do not count, because one caller may
// hold several permits.
func holdsAlready(ctx context.Context, l *Locker, name string) bool {
	h, _ := ctx.Value(heldLockKey{}).(*heldLock)
	for ; h != nil; h = h.parent {
		held := h.lock.hold.lease
		if held.locker == l && held.name == name && held.kind != permit && h.lock.Err() == nil {
			return true
		}
	}
	return false
}
