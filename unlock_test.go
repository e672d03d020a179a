package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Renewals reach the store, but their answers do not arrive. So the store keeps the lock
// for longer than the holder knows. An Unlock after the loss releases it.
func TestUnlockAfterRenewalsWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: 30 * time.Second})
		lock := must.Lock(t, l, "job")
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				if _, err := store.Backend.Renew(ctx, cs); err != nil {
					t.Error(err)
				}
				return nil, faulty.Hang(ctx)
			}
		})
		time.Sleep(31 * time.Second)
		if hs := holders(t, store, "job"); len(hs) != 1 {
			t.Fatalf("the store has %+v, want the lock that it renewed", hs)
		}
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: got %v, want ErrLost", err)
		}
		drainNow(t, l)
		mustBeFree(t, store, "job")
	})
}

// frozenAfter returns a lock with this TTL, on a store that stops answering when left is
// left of its lease.
func frozenAfter(t *testing.T, store *faulty.Store, l *holdfast.Locker, left time.Duration) *holdfast.Lock {
	t.Helper()
	lock := must.Lock(t, l, "job")
	store.Change(func() {
		store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
		store.OnRelease = func(ctx context.Context, _ driver.Claim) error { return faulty.Hang(ctx) }
	})
	if rest := lock.Remaining() - left; rest > 0 {
		time.Sleep(rest)
	}
	return lock
}

// If a store does not answer, Unlock returns at the end of the lease or after 3 s, and
// Drain one TTL after the call of Unlock.
func TestUnlockEndsWithTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		ttl, left, most time.Duration
	}{
		"800ms left":      {3 * time.Second, 800 * time.Millisecond, 1100 * time.Millisecond}, // and the margin
		"all of it":       {3 * time.Second, time.Hour, 3 * time.Second},
		"a long lease":    {time.Minute, time.Hour, 3 * time.Second},
		"nothing is left": {3 * time.Second, time.Millisecond, 310 * time.Millisecond},
	} {
		for _, way := range []string{"one", "all"} {
			t.Run(name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := faulty.New()
					l := holdfast.New(&hangingBatches{store}, &holdfast.Options{TTL: test.ttl})
					lock := frozenAfter(t, store, l, test.left)
					start := time.Now()
					var err error
					if way == "one" {
						err = lock.Unlock()
					} else {
						err = holdfast.Locks{lock}.Unlock()
					}
					if err == nil {
						t.Error("Unlock: got nil from a store that answers nothing")
					}
					between(t, "Unlock took", time.Since(start), 0, test.most)
					drainNow(t, l)
					between(t, "Unlock and Drain took", time.Since(start), 0, test.ttl)
				})
			})
		}
	}
}

// hangingBatches is a store that does not answer calls for several claims.
type hangingBatches struct{ *faulty.Store }

func (s *hangingBatches) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	err := faulty.Hang(ctx)
	errs := make([]error, len(cs))
	for i := range errs {
		errs[i] = err
	}
	return errs
}
