package zkholdtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/zkhold"
)

// A tenth of the answers to writes and renewals is lost, and some waiters for a permit give up. No
// more than two are inside, and no node is left.
func TestLostAnswersOfPermits(t *testing.T) {
	t.Parallel()
	const rounds, permits = 12, 2
	loss := zktest.Loss{Rate: 0.1}
	var inside, gaveUp atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		s := locker(t, &zkhold.Options{TTL: 4 * ttl, Dial: loss.Dialer}).Semaphore(name(t), permits)
		for range 2 {
			wg.Go(func() {
				for range rounds {
					ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
					impatient := rand.IntN(4) == 0
					if impatient {
						cancel()
						ctx, cancel = context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
					}
					lock, err := s.Acquire(ctx)
					cancel()
					if impatient && errors.Is(err, context.DeadlineExceeded) {
						gaveUp.Add(1)
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if lock.Token() == 0 {
						t.Error("a permit without a token")
					}
					if n := inside.Add(1); n > permits {
						t.Errorf("%d inside at once", n)
					}
					inside.Add(-1)
					if err := lock.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d answers were lost, %d gave up", loss.Lost(), gaveUp.Load())
	if loss.Lost() < rounds || gaveUp.Load() == 0 {
		t.Errorf("%d answers were lost and %d gave up, want more", loss.Lost(), gaveUp.Load())
	}
	await.Until(t, ttl, "no node is left", func() bool {
		return len(nodes(t, name(t)+"/locks"))+len(nodes(t, name(t)+"/leases")) == 0
	})
}
