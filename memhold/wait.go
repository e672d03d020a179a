package memhold

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// ahead is the value of Outcome.Ahead.
type ahead struct {
	changed <-chan struct{} // closed when another try may be granted
	before  int             // for a fair claim: how many claims are before it in the queue
}

// Waiter returns a Waiter for c. Its Wait returns when c may be granted after a release, a
// forced unlock or an increase of the permits. If c is fair, Wait returns when c is the first
// in the queue. Wait does not return when a lease expires, so the caller must not wait longer
// than Outcome.RetryAfter.
func (b *Backend) Waiter(driver.Claim) driver.Waiter { return waiter{} }

// waiter has no state: the Outcome has all that it needs.
type waiter struct{}

// Wait returns nil as the error when another try may be granted. The parameter `last` is the
// Outcome of the try that was refused. Wait returns the error of ctx when ctx ends.
func (waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, err
	}
	met, ok := last.Ahead.(ahead)
	if !ok {
		return driver.Outcome{}, nil // not an answer of this store: only another try shows the state
	}
	select {
	case <-met.changed:
		return driver.Outcome{}, nil
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
}

// Close does nothing: Wait leaves nothing behind.
func (waiter) Close() {}
