package redishold

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	pollFirst = time.Millisecond
	pollMost  = 128 * time.Millisecond // where the user may not listen; as Redisson's spin lock
)

// poller waits by sleeping: a millisecond at first, twice as long each time up to
// most, with jitter so that waiters do not return together.
type poller struct{ most, last time.Duration }

// wait returns nil after the next sleep, or earlier if the holder's lease ends.
func (w *poller) wait(ctx context.Context, last driver.Outcome) error {
	w.last = min(max(2*w.last, pollFirst), w.most)
	nap := w.last - rand.N(w.last/4+1) //nolint:gosec // spreads load, protects nothing
	if last.RetryAfter > 0 {
		nap = min(nap, last.RetryAfter)
	}
	retry.Sleep(ctx, nap)
	return ctx.Err()
}
