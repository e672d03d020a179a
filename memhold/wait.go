package memhold

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// ahead is the grant that a try found in its way: closed when that grant ends.
type ahead <-chan struct{}

// Waiter prepares to wait until the grant that a try of c ran into has ended. It
// wakes by release and by force; the end of a lease wakes nobody by itself, so
// the caller bounds the wait by Outcome.RetryAfter.
func (b *Backend) Waiter(driver.Claim) driver.Waiter { return waiter{} }

// waiter has no state: all that there is to wait for is in the Outcome.
type waiter struct{}

// Wait returns when the grant that last met has ended, or with ctx's error.
func (waiter) Wait(ctx context.Context, last driver.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	grant, ok := last.Ahead.(ahead)
	if !ok {
		return nil // not an answer of ours: nothing is known, so another try is worth while
	}
	select {
	case <-grant:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close does nothing: Wait leaves nothing behind.
func (waiter) Close() {}
