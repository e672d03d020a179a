package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Mutex describes an exclusive lock. It has no state of its own and is never
// held: each acquisition returns a new *Lock.
type Mutex struct {
	locker *Locker
	name   string
}

// Name returns the name that the mutex was described with.
func (m *Mutex) Name() string { return m.name }

// Lock is Locker.Lock for this mutex.
func (m *Mutex) Lock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.lock(ctx, forever, opts)
}

// TryLock is Locker.TryLock for this mutex.
func (m *Mutex) TryLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return m.lock(ctx, 0, opts)
}

// Do is the function Do for this mutex, where fn has no result but an error.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context, *Lock) error, opts ...Option) (err error) {
	lock, err := m.Lock(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return fn(lock.Context(ctx), lock)
}

func (m *Mutex) lock(ctx context.Context, wait time.Duration, opts []Option) (*Lock, error) {
	if err := m.locker.check(m.name); err != nil {
		return nil, fmt.Errorf("lock %q: %w", m.name, err)
	}
	r, err := m.locker.request(wait, opts)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", m.name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lock %q: %w", m.name, contextError(ctx))
	}
	if tree := ownerOf(ctx); tree != nil {
		return tree.lock(ctx, m, r)
	}
	if holdsAlready(ctx, m) {
		return nil, fmt.Errorf("lock %q: %w: the context comes from a lock of that name; use WithOwner to re-enter", m.name, ErrDeadlock)
	}
	return m.acquire(ctx, r)
}

// acquire takes the lock from the store, after those who came before.
func (m *Mutex) acquire(ctx context.Context, r request) (*Lock, error) {
	a := newAcquisition(m, r)
	lock, err := a.run(ctx)
	a.report(ctx, lock, err)
	return lock, err
}

// contextError returns ctx's error, with its cause where that says more.
func contextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err { //nolint:errorlint // identity: is there a separate cause at all
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
