package retry

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// TimeoutLeast is the least time that a call gets: a round trip to a store that is near.
	TimeoutLeast = 20 * time.Millisecond
	// timeoutFirst bounds the first attempt of a call. After each attempt without an answer,
	// the next attempt may take twice as long, up to timeoutMost.
	timeoutFirst = 500 * time.Millisecond
	timeoutMost  = 4 * time.Second
	// releaseMost bounds one call of Release. If that call is lost, the next one follows soon
	// enough to free the name shortly after the store is back.
	releaseMost = time.Second

	// DelayMost bounds the pause between two attempts of a call. It is also how often a
	// waiter asks a store that cannot wake it.
	DelayMost  = 250 * time.Millisecond
	delayFirst = 10 * time.Millisecond

	// sleepMost bounds every sleep of a waiter if messages may be lost: a lost message may
	// cost time, but must not stop a waiter.
	sleepMost = time.Second

	// The pauses between two attempts of a call that the store refuses. An operator needs
	// seconds at least.
	refusedFirst = 250 * time.Millisecond
	refusedMost  = 5 * time.Second

	// TryFailures is the number of failures in a row after which a caller that does not wait
	// gives up.
	TryFailures = 3
)

// Timeout returns how long a call about a claim may take, if the given number of calls before
// it have failed in a row. A slow store gets more time with each failure, up to half the lease,
// because an answer that comes later is of no use.
func Timeout(ttl time.Duration, failures int) time.Duration {
	first := min(max(ttl/10, TimeoutLeast), timeoutFirst)
	return min(first<<min(failures, 10), max(ttl/2, first), timeoutMost)
}

// TryTimeout is Timeout for a call of Try. If the lease is short, calls get more than half of
// it after some failures. A late answer is of no use as a grant, but it shows that the store
// can be reached, and that the lease is too short for this store.
func TryTimeout(ttl time.Duration, failures int) time.Duration {
	return max(Timeout(ttl, failures), min(TimeoutLeast<<min(failures, 10), timeoutFirst))
}

// ReleaseTimeout is Timeout for a call of Release.
func ReleaseTimeout(ttl time.Duration, failures int) time.Duration {
	return min(Timeout(ttl, failures), releaseMost)
}

// Delay returns the pause before a call is repeated, if it has failed the given number of times
// in a row. It is 10 ms after the first failure, and doubles with each further failure, up to
// the limit `most`. It has jitter, so that clients do not return all at once to a store that
// has just come back.
func Delay(failures int, most time.Duration) time.Duration {
	return growing(delayFirst, failures, most)
}

// RefusedDelay returns the pause before a call is repeated that the store has refused the given
// number of times in a row. It is 250 ms after the first refusal, and doubles up to 5 s. It has
// jitter, as Delay has.
func RefusedDelay(refusals int) time.Duration {
	return growing(refusedFirst, refusals, refusedMost)
}

// growing returns the n-th of several pauses, with jitter. Without the jitter, the pause is
// `first` for n = 1, and doubles with each n, up to the limit `most`.
func growing(first time.Duration, n int, most time.Duration) time.Duration {
	return jitter(min(first<<min(max(n-1, 0), 10), most))
}

// SleepLimit returns how long a waiter may sleep before it asks the store again: the time
// `recheck`, which is driver.Info.Recheck, or a second if that is 0. The parameter `after` is
// the RetryAfter of the store's answer. If `after` is shorter than that time, and not 0, the
// waiter sleeps for `after` and a few milliseconds more.
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
	return d - rand.N(d/4) //nolint:gosec // spreads load; no secret depends on it
}

// Sleep waits for d or until ctx ends, and reports whether d has passed.
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

// Over reports whether ctx has ended. A call with the deadline of ctx may return before the
// timer of ctx has fired. Then Over waits for that timer, for a moment at most.
func Over(ctx context.Context) bool {
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		Sleep(ctx, TimeoutLeast)
	}
	return ctx.Err() != nil
}

// Nap lets w wait, for `limit` at most. The parameter `answer` is the last answer of the store.
// Nap returns what the store granted meanwhile, or the zero Outcome if the store granted
// nothing. It also returns whether w was woken. If w cannot be woken, Nap is a short sleep.
func Nap(ctx context.Context, w driver.Waiter, answer driver.Outcome, limit time.Duration) (meanwhile driver.Outcome, woken bool) {
	nap, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	meanwhile, err := w.Wait(nap, answer)
	if err != nil && nap.Err() == nil {
		Sleep(nap, jitter(min(DelayMost, limit)))
	}
	return meanwhile, err == nil
}
