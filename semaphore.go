package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Semaphore describes a semaphore: a limited number of holders at a time. A permit is a
// *Lock with a lease and renewals. The permit of a process that died becomes free when
// its lease ends.
//
// Each Acquire takes another permit, also under WithOwner. Do not let a resource compare the
// tokens of permits: several holders are there at once, and an earlier one may write after a
// later one.
type Semaphore struct {
	locker  *Locker
	name    string
	permits int
}

// Semaphore returns the semaphore `name`. It does no I/O. If the store does not know the name
// yet, the parameter `permits` is the number of all permits. Later only Resize changes that
// number. It must be between 1 and 2147483647. With any other number, acquires and Resize
// return an error and send nothing. If the store has another number, an acquire reports it in
// Event.Permits, and once as a warning to Options.Logger.
func (l *Locker) Semaphore(name string, permits int) *Semaphore {
	return &Semaphore{locker: l, name: name, permits: permits}
}

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return s.name }

// Acquire waits for a permit and returns it. Its errors are those of Locker.Lock. Unlock
// releases the permit.
func (s *Semaphore) Acquire(ctx context.Context, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, forever, opts)
}

// TryAcquire takes a permit if one is free, and returns it. If none is free, it returns
// ErrBusy: at once, or after the time of the option Wait.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, 0, opts)
}

// Do runs fn with a permit. See Mutex.Do.
func (s *Semaphore) Do(ctx context.Context, fn func(context.Context, *Lock) error, opts ...Option) error {
	lock, err := s.Acquire(ctx, opts...)
	return doWith(ctx, lock, err, fn)
}

// Resize sets the number of all permits, including held ones, and notifies waiters. If
// more permits are held than the new number, their holders keep them, and no other permit
// is granted until enough are released.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	store, err := s.resizer()
	if err == nil {
		err = checkPermits(permits)
	}
	if err == nil {
		err = retry.Do(ctx, s.locker.ttl, func(ctx context.Context) error { return store.Resize(ctx, s.name, permits) })
	}
	if err != nil {
		return fmt.Errorf("resize semaphore %q: %w", s.name, err)
	}
	return nil
}

// Permits returns the number of all permits and the number of free permits. The second number
// is negative after a Resize below the number of held permits. Both numbers are 0 if the store
// does not know the name.
func (s *Semaphore) Permits(ctx context.Context) (total, free int, err error) {
	store, err := s.resizer()
	if err == nil {
		err = retry.Do(ctx, s.locker.ttl, func(ctx context.Context) (err error) {
			total, free, err = store.Permits(ctx, s.name)
			return err
		})
	}
	if err != nil {
		return 0, 0, fmt.Errorf("semaphore %q: %w", s.name, err)
	}
	return total, free, nil
}

func (s *Semaphore) resizer() (driver.Resizer, error) {
	if err := s.locker.check(s.name); err != nil {
		return nil, err
	}
	store, ok := s.locker.backend.(driver.Resizer)
	if !ok || !s.locker.info.Caps.Permits {
		return nil, s.locker.unsupported("semaphores that can be resized")
	}
	return store, nil
}

// mostPermits is the largest number of permits that a semaphore of Java can have. It is below
// 2^53, the limit up to which scripts of Redis count exactly.
const mostPermits = 1<<31 - 1

func checkPermits(n int) error {
	switch {
	case n < 1:
		return fmt.Errorf("%d permits make no semaphore; use 1 or more", n)
	case n > mostPermits:
		return fmt.Errorf("%d permits are too many: a semaphore has at most %d", n, mostPermits)
	}
	return nil
}

func (s *Semaphore) acquire(ctx context.Context, wait time.Duration, opts []Option) (*Lock, error) {
	r, err := s.locker.prepare(ctx, s.name, permit, wait, opts)
	if err == nil {
		err = checkPermits(s.permits)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", s.name, err)
	}
	r.permits = s.permits
	return s.locker.acquire(ctx, s.name, permit, r)
}
