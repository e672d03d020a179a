package deploytest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/redishold"
)

// watched is a store that counts its answers, and whose waiters do not look by
// themselves: a message that is not sent, or not heard, cannot go unnoticed.
type watched struct {
	*redishold.Backend
	answers atomic.Int64 // to those who want something
}

// client is a program with locks.
type client struct {
	*holdfast.Locker
	store *watched
}

// openWatched returns a client over a store of its own, which ends with t.
func openWatched(t testing.TB, w way, p place, o redishold.Options) client {
	t.Helper()
	store := &watched{Backend: openStore(t, w, p, o)}
	return client{drained(t, store), store}
}

// Info lets a waiter for a message sleep.
func (w *watched) Info() driver.Info {
	info := w.Backend.Info()
	info.Recheck = time.Minute
	return info
}

// Try counts.
func (w *watched) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	defer w.answers.Add(1)
	return w.Backend.Try(ctx, c)
}

// Count counts: a waiter for a latch asks for its count.
func (w *watched) Count(ctx context.Context, name string) (int64, error) {
	defer w.answers.Add(1)
	return w.Backend.Count(ctx, name)
}

// asleep is called before somebody begins to wait. What it returns waits until that
// sleeps: it has been refused, listens, and has been refused once more.
func (w *watched) asleep(t testing.TB, who string) func() {
	before := w.answers.Load()
	return func() {
		t.Helper()
		await.Until(t, 10*time.Second, who+" sleeps", func() bool { return w.answers.Load() >= before+2 })
	}
}
