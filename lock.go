package holdfast

import (
	"context"
	"runtime"
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
// has not ended. So a holder that only waits for the end of that context keeps the lock.
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

// Name returns the name of the lock.
func (k *Lock) Name() string { return k.hold.lease.name }

// Token returns the fencing token. It is larger than the token of every earlier holder of the
// name, and does not change while the lock is held. Send it with every write, and let the
// resource refuse a token that is smaller than the largest it has seen. Token returns 0 if the
// store has no tokens.
func (k *Lock) Token() uint64 { return k.hold.token }

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
func (k *Lock) Remaining() time.Duration { return k.hold.remaining() }

// Context returns a context for the work under the lock. It is derived from ctx, and also ends
// when the lock is lost or unlocked. context.Cause then returns ctx's cause, ErrLost or
// ErrUnlocked. Locking the same name with that context returns ErrDeadlock, unless WithOwner
// allows re-entry.
//
// The lock stores each such context until ctx ends or the lock ends. So pass a ctx that ends
// with the piece of work. Do not derive many contexts from one ctx that lives long.
func (k *Lock) Context(ctx context.Context) context.Context {
	return withHeldLock(k.derive(ctx), k)
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

// derived is a context made by Lock.Context that has not ended yet.
type derived struct {
	cancel context.CancelCauseFunc
	lock   *Lock // so that the Lock is not collected while the context lives: the holder may keep only the context
}

// derive returns a context that ends when `parent` ends or the hold ends.
func (k *Lock) derive(parent context.Context) context.Context {
	h := k.hold
	ctx, cancel := context.WithCancelCause(parent)
	if err := h.state(); over(err) {
		cancel(err)
		return ctx
	}
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

// addContext makes d end with the hold. If the hold has ended already, addContext returns the
// error with which it ended.
func (h *hold) addContext(d *derived) error {
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

func (h *hold) dropContext(d *derived) {
	h.lease.mu.Lock()
	delete(h.contexts, d)
	h.lease.mu.Unlock()
	d.cancel(nil)
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

// kind is the kind of a lock.
type kind uint8

const (
	plain kind = iota
	fair
	reader
	writer
	permit
)

// String returns the name that logs, metrics and errors use.
func (k kind) String() string {
	return [...]string{"mutex", "fair", "read", "write", "semaphore"}[k]
}

// kindOf returns the kind of a claim.
func kindOf(c *driver.Claim) kind {
	switch {
	case c.Mode == driver.Permit:
		return permit
	case c.Mode == driver.Shared:
		return reader
	case c.ReadWrite:
		return writer
	case c.Fair:
		return fair
	default:
		return plain
	}
}

// supported reports whether a store with the features in c has locks of this kind.
func (k kind) supported(c driver.Caps) bool {
	switch k {
	case fair:
		return c.Fair
	case reader, writer:
		return c.Shared
	case permit:
		return c.Permits
	default:
		return true
	}
}

// mode returns how a claim of this kind shares its name with others.
func (k kind) mode() driver.Mode {
	switch k {
	case reader:
		return driver.Shared
	case permit:
		return driver.Permit
	default:
		return driver.Exclusive
	}
}

// readWrite reports whether the kind is a side of a read-write lock.
func (k kind) readWrite() bool { return k == reader || k == writer }

// exclusive reports whether the claims of this process wait for a hold of this kind without
// asking the store, because one hold excludes all other claims. It returns false for a fair
// lock: each of its claims asks the store, to get a place in the queue there.
func (k kind) exclusive() bool { return k == plain || k == writer }
