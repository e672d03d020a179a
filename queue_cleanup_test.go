package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A waiter of a fair lock gives up while the store answers no release, for two of its TTLs.
// Its place lasts longer than its TTL. The next waiter gets the lock as soon as the store
// answers again, and not when the place ends.
func TestPlaceIsReleasedAfterTheTTL(t *testing.T) {
	const timeout, ttl, silent = 100 * time.Millisecond, time.Second, 2 * time.Second
	for name, lost := range map[string]bool{"refused": false, "without an answer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				held := mustFair(t, holdfast.New(store, nil))
				answers := time.Now().Add(timeout + silent)
				store.Change(func() {
					store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
						out, err := store.Backend.Try(ctx, c)
						if lost && !out.Granted {
							return driver.Outcome{}, faulty.Hang(ctx)
						}
						return out, err
					}
					store.OnRelease = func(ctx context.Context, c driver.Claim) error {
						if time.Now().Before(answers) {
							return faulty.Hang(ctx)
						}
						return store.Backend.Release(ctx, c)
					}
				})
				l := holdfast.New(store, &holdfast.Options{TTL: ttl})
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				if lock, err := l.FairMutex("job").Lock(ctx); err == nil {
					t.Fatalf("got %v, want no lock", lock)
				}
				time.Sleep(silent)
				store.Change(func() { store.OnTry = nil })
				must.Unlock(t, held)
				began := time.Now()
				must.Unlock(t, mustFair(t, holdfast.New(store, nil)))
				between(t, "the next waiter waited for", time.Since(began), 0, ttl)
				must.Drain(t, l)
			})
		})
	}
}

func mustFair(t *testing.T, l *holdfast.Locker) *holdfast.Lock {
	t.Helper()
	lock, err := l.FairMutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lock
}
