package driver

import (
	"context"
)

// Drainer is implemented by a Backend that goes on in the background after its
// calls have returned.
type Drainer interface {
	// Drain waits until nothing runs in the background, or returns ctx's error.
	Drain(ctx context.Context) error
}

// Batcher is implemented by a Backend that can make several tries, or releases,
// in one round trip.
type Batcher interface {
	// TryAll makes one attempt for each of cs, which have different names, as Try
	// would. The answer has one Attempt per claim, in the same order.
	TryAll(ctx context.Context, cs []Claim) []Attempt

	// ReleaseAll releases each of cs as Release would. The answer has one error per
	// claim, in the same order.
	ReleaseAll(ctx context.Context, cs []Claim) []error
}

// Attempt is the answer to one claim of a TryAll: what Try would have returned.
type Attempt struct {
	Outcome Outcome
	Err     error
}

// Resizer is implemented by a Backend that can change how many permits a
// semaphore has.
type Resizer interface {
	// Resize sets how many permits name has in all, held ones included, and wakes
	// waiters. Where it has fewer than are held, those go on, and no new one is
	// given out until enough have come back. Repeating it changes nothing.
	Resize(ctx context.Context, name string, permits int) error

	// Permits returns how many permits name has in all, and how many of them are
	// free; both are 0 if the store does not know the name. free is negative if
	// more are held than there are.
	Permits(ctx context.Context, name string) (total, free int, err error)
}

// Latcher is implemented by a Backend that keeps count-down latches.
type Latcher interface {
	// SetCount sets the count of the latch name to n, at least 1, and reports
	// whether it did: a latch that is counting is not set again. call is unique to
	// this call; repeated with it, SetCount answers as it did the first time.
	SetCount(ctx context.Context, name, call string, n int64) (bool, error)

	// CountDown lowers the count by one, and opens the latch at 0. Counting down
	// an open latch changes nothing. call is unique to this call; repeated with
	// it, CountDown counts once.
	CountDown(ctx context.Context, name, call string) error

	// Count returns the count; 0 means that the latch is open.
	Count(ctx context.Context, name string) (int64, error)

	// LatchWaiter returns a Waiter that wakes when the latch may have opened.
	// Outcome.Ahead of what it is given is ignored: it returns early the first
	// time, so the caller counts again after each Wait.
	LatchWaiter(name string) Waiter
}
