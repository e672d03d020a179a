package retry

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// TimeoutLeast is the least time that a call gets: a round trip to a store that is
	// near.
	TimeoutLeast = 20 * time.Millisecond
	// timeoutFirst bounds the first attempt of a call; each that ends without an answer
	// lets the next take twice as long, up to timeoutMost.
	timeoutFirst = 500 * time.Millisecond
	timeoutMost  = 4 * time.Second
	// releaseMost bounds one call of Release: the name should be free soon after a
	// store that lost the call is back.
	releaseMost = time.Second

	// DelayMost bounds the pause between two attempts of a call. It is also how often a
	// waiter asks a store that cannot wake it.
	DelayMost  = 250 * time.Millisecond
	delayFirst = 10 * time.Millisecond

	// sleepMost bounds every sleep of a waiter where messages may get lost: a lost
	// message must cost latency, never liveness.
	sleepMost = time.Second

	// TryFailures is how many failures in a row are enough for a caller who does not wait.
	TryFailures = 3
)

// Timeout is how long one call about a claim may take, after so many failures in a
// row. A store that is merely slow gets ever more time, up to half the lease: an answer
// that comes later is worth nothing.
func Timeout(ttl time.Duration, failures int) time.Duration {
	first := min(max(ttl/10, TimeoutLeast), timeoutFirst)
	return min(first<<min(failures, 10), max(ttl/2, first), timeoutMost)
}

// TryTimeout is Timeout for a call of Try. After some failures it gives a call more than
// half of a short lease: only an answer shows that the store is there, and that the lease
// is too short for it.
func TryTimeout(ttl time.Duration, failures int) time.Duration {
	return max(Timeout(ttl, failures), min(TimeoutLeast<<min(failures, 10), timeoutFirst))
}

// ReleaseTimeout is Timeout for a call of Release.
func ReleaseTimeout(ttl time.Duration, failures int) time.Duration {
	return min(Timeout(ttl, failures), releaseMost)
}

// Delay is the pause before a call is made again, after so many failures in a row:
// 10 ms doubled up to most, with jitter, so that clients do not return all together to
// a store that just came back.
func Delay(failures int, most time.Duration) time.Duration {
	return jitter(min(delayFirst<<min(max(failures-1, 0), 10), most))
}

// SleepLimit is how long a waiter sleeps at most before it asks the store again: as
// long as driver.Info.Recheck allows, a second where that is 0, and no longer than the
// store said in its answer, where after is not 0.
func SleepLimit(recheck, after time.Duration) time.Duration {
	limit := jitter(cmp.Or(recheck, sleepMost))
	if after > 0 && after < limit {
		return after + jitter(5*time.Millisecond)
	}
	return limit
}

// jitter returns a random duration of 75 to 100 percent of d.
func jitter(d time.Duration) time.Duration {
	if d < 4 {
		return d
	}
	return d - rand.N(d/4) //nolint:gosec // spreads load, protects nothing
}

// Sleep waits for d or until ctx is done, and reports whether d went by.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Over reports whether ctx has ended. A call that ended at the deadline of ctx may have done
// so by a timer of its own, before the timer of ctx has fired: Over waits for that.
func Over(ctx context.Context) bool {
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		Sleep(ctx, TimeoutLeast)
	}
	return ctx.Err() != nil
}

// Nap lets w wait for as long as limit at most, given what the store answered last. It
// returns what the store granted meanwhile, the zero Outcome if it did not say so, and
// whether w woke. A Waiter that cannot wake costs a short sleep.
func Nap(ctx context.Context, w driver.Waiter, answer driver.Outcome, limit time.Duration) (meanwhile driver.Outcome, woken bool) {
	nap, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	meanwhile, err := w.Wait(nap, answer)
	if err != nil && nap.Err() == nil {
		Sleep(nap, jitter(min(DelayMost, limit)))
	}
	return meanwhile, err == nil
}
