package memhold

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/document"
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
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	e := b.open(name, now)
	if err := e.Resize(name, permits, now); err != nil {
		return failed(err)
	}
	b.settle(name, e)
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
	e := b.open(name, b.begin())
	if err := e.Expect(name, document.Semaphore); err != nil {
		return 0, 0, failed(err)
	}
	return e.Permits, e.Free(), nil
}
