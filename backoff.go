package holdfast

import (
	"context"
	"math/rand/v2"
	"time"
)

// How long the Locker sleeps and how long it lets one call take.
const (
	// sleepCap bounds every sleep of a waiter where the store has no Info.Recheck:
	// messages may get lost, and a lost message must cost latency, never liveness.
	sleepCap = time.Second
	// pollCap bounds the sleep where the store cannot wake.
	pollCap = 250 * time.Millisecond
	// attemptCap bounds the first attempt of a call; each that ends without an
	// answer lets the next take twice as long.
	attemptCap  = 500 * time.Millisecond
	attemptMin  = 20 * time.Millisecond
	attemptMost = 4 * time.Second
)

// attemptTimeout is how long one call may take before it is made again, after so
// many failures in a row. A store that is merely slow gets ever more time, up to
// half the lease: an answer that comes later is worth nothing.
func attemptTimeout(ttl time.Duration, failures int) time.Duration {
	first := min(max(ttl/10, attemptMin), attemptCap)
	return min(first<<min(failures, 10), max(ttl/2, first), attemptMost)
}

// retryDelay is the pause before a call is made again, after so many failures in
// a row: 10 ms doubled up to most, with jitter, so that clients do not return
// all together to a store that just came back.
func retryDelay(failures int, most time.Duration) time.Duration {
	d := 10 * time.Millisecond << min(max(failures-1, 0), 10)
	return jitter(min(d, most))
}

// jitter returns a random duration of 75 to 100 percent of d.
func jitter(d time.Duration) time.Duration {
	if d < 4 {
		return d
	}
	return d - rand.N(d/4) //nolint:gosec // spreads load, protects nothing
}

// sleep waits for d or until ctx is done, and reports whether d went by.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
