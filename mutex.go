package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Mutex describes an exclusive lock, or one side of a read-write lock. It has no
// state of its own and is never held: each acquisition returns a new *Lock.
type Mutex struct {
	locker *Locker
	name   string
	kind   kind
}

// RWMutex describes a read-write lock: any number of readers or one writer. Each reader
// has its own lease, so a reader that dies does not affect the others.
//
// Under WithOwner a writer may also take the read side, and keep it after it unlocks the
// write side (downgrade). A reader that asks for the write side gets ErrDeadlock, because
// two such readers would wait for each other.
//
// The store decides whether a waiting writer blocks new readers. Redisson's layout never
// refuses a reader while others read, so a writer may wait forever if there are always
// readers.
type RWMutex struct {
	Read, Write *Mutex
}

// Mutex returns the exclusive lock `name`. It does no I/O. A Mutex has no state: two of them
// with one name are the same lock.
func (l *Locker) Mutex(name string) *Mutex { return &Mutex{locker: l, name: name} }

// FairMutex returns the fair exclusive lock `name`. Its waiters get the lock in the order in
// which they first asked the store, across all processes. All clients of that name must use
// FairMutex. A waiter that dies is skipped after a few seconds. A TryLock takes no place in the
// queue, and does not overtake waiters. FairMutex does no I/O.
//
// Fairness has a cost: each waiter asks the store itself, at least once a second.
func (l *Locker) FairMutex(name string) *Mutex { return &Mutex{locker: l, name: name, kind: fair} }

// RWMutex returns the read-write lock `name`. It does no I/O.
func (l *Locker) RWMutex(name string) RWMutex {
	return RWMutex{
		Read:  &Mutex{locker: l, name: name, kind: reader},
		Write: &Mutex{locker: l, name: name, kind: writer},
	}
}

// Name returns the name of the lock.
func (m *Mutex) Name() string { return m.name }

// Mode returns driver.Shared for the read side of a RWMutex, which any number of callers hold at
// the same time. For each other Mutex, it returns driver.Exclusive.
func (m *Mutex) Mode() driver.Mode { return m.kind.mode() }

// Lock waits until the name is free, takes the lock, and returns it. If ctx ends first, it
// returns ctx's error. The option Wait sets an earlier limit, after which it returns ErrBusy.
// ctx limits only the wait, not the lock: use Lock.Context for the work under the lock.
//
// A call that gives up removes its claim from the store. It waits for that for at most 25 ms
// beyond the end of ctx or of Wait. If the store needs longer, the removal goes on in the
// background: call Drain before the program ends, or the claim may block the name for a TTL.
//
// If the store is unreachable, Lock tries again until ctx ends. An error that does not go
// away by waiting is returned at once: a wrong password, a missing permission, a full
// server, ErrMismatch if the name is in use for something else, ErrDeadlock if the caller
// would wait for itself. The option RetryRefused makes Lock wait until an operator has
// repaired the first three.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.Mutex(name).Lock(ctx, opts...)
}

// TryLock takes the lock `name` if it is free, and returns it. If it is not free, TryLock
// returns a *BusyError, which is ErrBusy: at once, or after the time of the option Wait. If the
// store does not answer, TryLock tries a few times, and then returns the error of the store.
func (l *Locker) TryLock(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return l.Mutex(name).TryLock(ctx, opts...)
}

// Do takes the lock `name`, runs fn and releases the lock. Prefer Do to Lock. Do waits as Lock
// does, and never calls fn without the lock. The context of fn ends when the lock is lost. Do
// returns the results of fn. If the lock was lost meanwhile, the error is fn's error joined
// with ErrLost, even if fn returned nil. If the release could not be confirmed, the error of
// the release is joined in the same way.
func Do[T any](ctx context.Context, l *Locker, name string, fn func(context.Context, *Lock) (T, error), opts ...Option) (result T, err error) {
	lock, err := l.Lock(ctx, name, opts...)
	if err != nil {
		return result, err
	}
	defer func() { err = joined(err, lock.unlock(false)) }()
	return fn(lock.Context(ctx), lock)
}

// Lock is Locker.Lock for this mutex.
func (m *Mutex) Lock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.lock(ctx, forever, opts)
}

// TryLock is Locker.TryLock for this mutex.
func (m *Mutex) TryLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.lock(ctx, 0, opts)
}

// Do does for this mutex what the function Do does for a name. The function fn returns only an
// error.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context, *Lock) error, opts ...Option) error {
	lock, err := m.Lock(ctx, opts...)
	return doWith(ctx, lock, err, fn)
}

// joined returns err, the error of a function that ran under a lock, joined with `unlock`, the
// error of the Unlock after that function. It returns err alone if `unlock` is nil, or if err
// contains the *LostError of `unlock` already. For example, err contains it if the function has
// returned the cause of its context.
func joined(err, unlock error) error {
	var lost *LostError
	if unlock == nil || errors.As(unlock, &lost) && errors.Is(err, lost) {
		return err
	}
	return errors.Join(err, unlock)
}

// doWith runs fn and then unlocks. The parameter `lock` is a *Lock or Locks that the caller has
// taken. If the error `failed` is not nil, the caller has taken no lock. In that case doWith
// returns `failed`, and does not run fn.
func doWith[L interface {
	Context(context.Context) context.Context
	unlock(async bool) error
}](ctx context.Context, lock L, failed error, fn func(context.Context, L) error) (err error) {
	if failed != nil {
		return failed
	}
	defer func() { err = joined(err, lock.unlock(false)) }()
	return fn(lock.Context(ctx), lock)
}

func (m *Mutex) lock(ctx context.Context, wait time.Duration, opts []Option) (*Lock, error) {
	r, err := m.locker.prepare(ctx, m.name, m.kind, wait, opts)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", m.name, err)
	}
	if tree := ownerOf(ctx); tree != nil {
		return tree.lock(ctx, m, r)
	}
	if holdsAlready(ctx, m.locker, m.name) {
		return nil, fmt.Errorf("lock %q: %w: the context comes from a lock of that name; use WithOwner to re-enter", m.name, ErrDeadlock)
	}
	return m.locker.acquire(ctx, m.name, m.kind, r)
}
