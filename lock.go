package holdfast

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
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
	k.net = runtime.AddCleanup(k, func(h *hold) { h.dropped() }, h)
	return k
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

// shareNet sets one net for Locks that lie in one slice, whose holds are the first ones of
// leases in one slice. The garbage collector finds these Locks when the program has dropped all
// of them.
func shareNet(locks []Lock, leases []lease) {
	if len(locks) == 0 {
		return
	}
	net := runtime.AddCleanup(&locks[0], func(leases []lease) {
		for i := range leases {
			leases[i].first.dropped()
		}
	}, leases)
	for i := range locks {
		locks[i].net, leases[i].first.sharers = net, int32(len(locks))
	}
}

// stopNet is called before the Lock is unlocked. A shared net stays: when the garbage collector
// finds its Locks, those that were unlocked need nothing any more.
func (k *Lock) stopNet() {
	if k.hold.sharers == 0 {
		k.net.Stop()
	}
}

// stopSharedNet is called before all locks in ks are unlocked. It stops the net that they share,
// unless locks that are not in ks share it, too.
func (ks Locks) stopSharedNet() {
	for _, k := range ks {
		if k == nil || k.net != ks[0].net || int(k.hold.sharers) != len(ks) {
			return
		}
	}
	if len(ks) > 0 {
		ks[0].net.Stop()
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
	d := &derived{cancel: cancel, lock: k}
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

// Locks are several locks held together.
type Locks []*Lock

// Err returns nil while all locks are held, and otherwise the error of the first one that
// is not. See Lock.Err.
func (ks Locks) Err() error {
	for _, k := range ks {
		if err := k.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Context returns a context for the work under the locks. It is derived from ctx, and
// ends when the first of the locks is lost or unlocked.
func (ks Locks) Context(ctx context.Context) context.Context {
	for _, k := range ks {
		ctx = k.Context(ctx)
	}
	return ctx
}

// Unlock releases all locks and returns their errors joined, or nil. The locks of one
// Locker take one round trip, if its store supports that.
func (ks Locks) Unlock() error { return ks.unlock(false) }

// unlock is Unlock. It always waits for the answers of the stores.
func (ks Locks) unlock(bool) error {
	ks.stopSharedNet()
	if len(ks) > 0 && len(ks) <= batchMost && !slices.ContainsFunc(ks, func(k *Lock) bool { return !k.inBatch() || !k.sameLocker(ks[0]) }) {
		errs := make([]error, len(ks))
		ks[0].hold.lease.locker.unlockAll(ks, errs)
		return errors.Join(errs...)
	}
	return errors.Join(ks.unlockSeveral()...)
}

// unlockSeveral releases locks of several Lockers, or locks that cannot be released together.
// It returns an error for each lock, or nil, in the order of ks.
func (ks Locks) unlockSeveral() []error {
	errs := make([]error, len(ks))
	together := make(map[*Locker][]int)
	var wg sync.WaitGroup
	for i, k := range ks {
		if k.inBatch() {
			l := k.hold.lease.locker
			together[l] = append(together[l], i)
		} else {
			wg.Go(func() { errs[i] = k.unlock(false) })
		}
	}
	for l, all := range together {
		for at := range slices.Chunk(all, batchMost) {
			wg.Go(func() {
				some, failed := make(Locks, len(at)), make([]error, len(at))
				for j, i := range at {
					some[j] = ks[i]
				}
				l.unlockAll(some, failed)
				for j, i := range at {
					errs[i] = failed[j]
				}
			})
		}
	}
	wg.Wait()
	return errs
}

// sameLocker reports whether two locks are of one Locker.
func (k *Lock) sameLocker(other *Lock) bool { return k.hold.lease.locker == other.hold.lease.locker }

// inBatch reports whether a lock can be released together with others.
func (k *Lock) inBatch() bool {
	if k == nil || k.owned != nil {
		return false
	}
	_, ok := k.hold.lease.locker.backend.(driver.Batcher)
	return ok
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

// holdsAlready reports whether ctx is derived from a lock that is still held, and that has the
// name and the Locker of m. If so, the caller would wait for itself. This can happen even with
// two read locks, because a store may refuse new readers while a writer waits. Permits do not
// count, because one caller may hold several permits.
func holdsAlready(ctx context.Context, m *Mutex) bool {
	h, _ := ctx.Value(heldLockKey{}).(*heldLock)
	for ; h != nil; h = h.parent {
		if l := h.lock.hold.lease; l.locker == m.locker && l.name == m.name && l.kind != permit && h.lock.Err() == nil {
			return true
		}
	}
	return false
}
