package memhold

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// Resize sets the number of all permits of the semaphore `name`. It creates the semaphore if it
// does not exist, and notifies waiters if the number became larger. If more permits are held
// than the new number, their holders keep them, and no other permit is granted until enough are
// released. Resize returns driver.ErrMismatch if the name is in use for another kind, and
// driver.ErrRefused if the new number is negative.
func (b *Backend) Resize(ctx context.Context, name string, permits int) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if permits < 0 {
		return refused("semaphore %q: cannot have %d permits", name, permits)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.expect(name, semaphore, b.begin())
	if err != nil {
		return err
	}
	if e == nil {
		e = newResource(semaphore)
		b.resources[name] = e
	}
	more := permits > e.permits
	e.permits = permits
	if more {
		e.wake()
	}
	return nil
}

// Permits returns the number of all permits of the semaphore `name`, and the number of free
// permits. The second number is negative if more permits are held than there are. Both numbers
// are 0 if there is no such semaphore. Permits returns driver.ErrMismatch if the name is in use
// for another kind.
func (b *Backend) Permits(ctx context.Context, name string) (total, free int, err error) {
	if err := ended(ctx); err != nil {
		return 0, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.expect(name, semaphore, b.begin())
	if err != nil || e == nil {
		return 0, 0, err
	}
	return e.permits, e.permits - len(e.grants), nil
}

// refused returns the error for a call that this store refuses, however often it is repeated.
func refused(format string, args ...any) error {
	return fmt.Errorf("memhold: %s: %w, %w", fmt.Sprintf(format, args...), driver.ErrRefused, driver.ErrNotExecuted)
}
