package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

const (
	ttl    = 9 * time.Second
	margin = 900 * time.Millisecond
)

func TestRenewalEachThirdOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		start := time.Now()
		lock := must.Lock(t, l, "leader")
		for range 24 * 60 * 6 { // each 10 s for 24 h
			time.Sleep(10 * time.Second)
			hs := holders(t, store, "leader")
			if len(hs) != 1 || hs[0].Remaining < ttl*6/10 {
				t.Fatalf("after %v: got %+v, want the lease never below two thirds", time.Since(start), hs)
			}
		}
		if got, want := store.Renews.Load(), int64(24*60*60/3); got < want || got > want+2 {
			t.Errorf("got %d renewals in 24 h, want %d", got, want)
		}
		must.Unlock(t, lock)
		synctest.Wait() // a renewal may have been due at the same instant
		before := store.Renews.Load()
		time.Sleep(time.Hour)
		if got := store.Renews.Load(); got != before {
			t.Errorf("%d renewals after Unlock", got-before)
		}
		mustBeFree(t, store, "leader")
	})
}

func TestFixedLeaseEndsAndIsNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			before := holders(t, store, "job")
			answers, err := store.Backend.Renew(ctx, cs)
			if after := holders(t, store, "job"); after[0].Remaining != before[0].Remaining || !cs[0].Fixed {
				t.Errorf("a check of %+v changed the lease from %v to %v", cs[0], before[0].Remaining, after[0].Remaining)
			}
			return answers, err
		}
		l := holdfast.New(store, &holdfast.Options{TTL: time.Second})
		lock := must.Lock(t, l, "job", holdfast.Lease(time.Minute))
		ctx := lock.Context(t.Context())
		start := time.Now()
		<-ctx.Done()
		between(t, "the lock ended", time.Since(start), 59*time.Second, time.Minute)
		var lost *holdfast.LostError
		if !errors.As(context.Cause(ctx), &lost) || lost.Reason != driver.ReasonExpired {
			t.Errorf("got %v, want an expired lock", context.Cause(ctx))
		}
		if got := store.Renews.Load(); got == 0 {
			t.Error("got no check in a minute")
		}
		if hs := holders(t, store, "job"); len(hs) != 1 {
			t.Errorf("the lease was released before its holder said that it is done: %v", hs)
		}
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: got %v, want ErrLost", err)
		}
		synctest.Wait()
		mustBeFree(t, store, "job")
	})
}

// If a store stops answering, the holder's context ends a margin before the store can grant
// the lock to another client, in whatever way the calls fail.
func TestHolderLearnsBeforeTheLeaseEnds(t *testing.T) {
	var refused atomic.Bool
	failures := map[string]func(context.Context, []driver.Claim) ([]driver.Renewal, error){
		"hangs":    func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) },
		"errors":   func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, errors.New("reset") },
		"not sent": func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, driver.ErrNotExecuted },
		"refused": func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
			return nil, fmt.Errorf("%w: wrong password", driver.ErrRefused)
		},
		"refused, then hangs": func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) {
			if refused.CompareAndSwap(false, true) {
				return nil, fmt.Errorf("%w: wrong password", driver.ErrRefused)
			}
			return nil, faulty.Hang(ctx)
		},
		"short": func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, nil },
		"never ends": func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
			time.Sleep(time.Hour)
			return nil, nil
		},
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
				lock := must.Lock(t, l, "job")
				start := time.Now()
				store.Change(func() { store.OnRenew = fail })
				ctx := lock.Context(t.Context())
				<-ctx.Done()
				between(t, "told", time.Since(start), ttl-margin, ttl-margin)
				if hs := holders(t, store, "job"); len(hs) != 1 || hs[0].Remaining != margin {
					t.Errorf("got %+v, want the lease with %v left", hs, margin)
				}
				want := driver.ReasonUnreachable
				if strings.HasPrefix(name, "refused") {
					want = driver.ReasonRefused
				}
				var lost *holdfast.LostError
				if !errors.As(context.Cause(ctx), &lost) || lost.Reason != want {
					t.Errorf("got %v, want %s", context.Cause(ctx), want)
				}
				if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Err: got %v, want ErrLost", err)
				}
				if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Unlock: got %v, want ErrLost", err)
				}
				time.Sleep(time.Hour) // until the call that hangs has ended
			})
		})
	}
}

// The deadline counts from before the request: a late answer gives no longer lease, and one
// that comes too late gives none.
func TestLateAnswersGiveNoLongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			out, err := store.Backend.Try(ctx, c)
			time.Sleep(400 * time.Millisecond)
			return out, err
		}
		start := time.Now()
		lock := must.Lock(t, l, "job")
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
		})
		between(t, "Remaining", lock.Remaining(), 0, ttl-margin-400*time.Millisecond)
		<-lock.Context(t.Context()).Done()
		between(t, "told after the first request", time.Since(start), ttl-margin, ttl-margin)
		_ = lock.Unlock()
	})
}

func TestGrantThatIsNearlyOverIsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			out, err := store.Backend.Try(ctx, c)
			time.Sleep(8 * time.Second) // ignores its context, too
			return out, err
		}
		_, err := l.TryLock(t.Context(), "job")
		if err == nil {
			t.Fatal("a lock with most of its lease gone was handed out")
		}
		store.OnTry = nil
		synctest.Wait()
		mustBeFree(t, store, "job")
	})
}

// A failure that is shorter than the lease is no loss.
func TestRenewalIsRetriedUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
		lock := must.Lock(t, l, "job")
		for range 100 {
			store.Change(func() {
				store.OnRenew = func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, errors.New("reset") }
			})
			time.Sleep(ttl / 2)
			store.Change(func() { store.OnRenew = nil })
			time.Sleep(time.Second)
			if err := lock.Err(); err != nil {
				t.Fatalf("lost by a blip of half a lease: %v", err)
			}
		}
		must.Unlock(t, lock)
	})
}

func TestLossHasAReason(t *testing.T) {
	tests := []struct {
		want driver.Reason
		lose func(t *testing.T, store *faulty.Store)
	}{
		{driver.ReasonDeleted, func(_ *testing.T, store *faulty.Store) { store.Drop("job") }},
		{driver.ReasonForced, func(t *testing.T, store *faulty.Store) {
			hs := holders(t, store, "job")
			if len(hs) != 1 {
				t.Fatalf("got holders %v, want one", hs)
			}
			if err := store.ForceUnlock(t.Context(), "job", hs[0], "stuck since noon"); err != nil {
				t.Fatalf("ForceUnlock: %v", err)
			}
			if err := store.ForceUnlock(t.Context(), "job", hs[0], "again"); !errors.Is(err, driver.ErrGone) {
				t.Errorf("second ForceUnlock: got %v, want ErrGone", err)
			}
		}},
		{driver.ReasonNotOwner, func(t *testing.T, store *faulty.Store) {
			c := driver.Claim{Name: "job", Owner: "me", TTL: time.Minute, Count: 1, Tokens: 1}
			store.Change(func() {
				store.OnRenew = func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
					return []driver.Renewal{{Err: &driver.GoneError{Reason: driver.ReasonNotOwner}}}, nil
				}
			})
			if _, err := store.Backend.Try(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(string(tt.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, &holdfast.Options{TTL: ttl})
				lock := must.Lock(t, l, "job")
				ctx := lock.Context(t.Context())
				start := time.Now()
				tt.lose(t, store)
				<-ctx.Done()
				between(t, "told", time.Since(start), 0, ttl/3)
				for what, err := range map[string]error{"cause": context.Cause(ctx), "Err": lock.Err(), "Unlock": lock.Unlock()} {
					var lost *holdfast.LostError
					if !errors.As(err, &lost) || !errors.Is(err, holdfast.ErrLost) || lost.Reason != tt.want {
						t.Errorf("%s: got %v, want a loss: %s", what, err, tt.want)
					}
				}
			})
		})
	}
}

// After a loss, another goroutine of the process can have the lock as soon as the store
// would grant it: the queue does not delay that.
func TestLossLetsTheNextOfTheProcessIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		lost := must.Lock(t, l, "job")
		store.Drop("job")
		start := time.Now()
		next := must.Lock(t, l, "job")
		between(t, "the next got the lock", time.Since(start), 0, ttl/3)
		if next.Token() <= lost.Token() {
			t.Errorf("token %d is not larger than %d", next.Token(), lost.Token())
		}
		if err := lost.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock of the lost lock: got %v, want ErrLost", err)
		}
		if err := next.Err(); err != nil {
			t.Errorf("the next holder was disturbed: %v", err)
		}
		must.Unlock(t, next)
	})
}

// If one claim makes the store's code panic, only that lock is lost.
func TestPanickingRenewalCostsOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		locks := make([]*holdfast.Lock, 1000)
		for i := range locks {
			locks[i] = must.Lock(t, l, fmt.Sprintf("job:%d", i))
		}
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				if slices.ContainsFunc(cs, func(c driver.Claim) bool { return c.Name == "job:500" }) {
					panic("cannot renew this")
				}
				return store.Backend.Renew(ctx, cs)
			}
		})
		time.Sleep(10 * ttl)
		for i, k := range locks {
			err := k.Err()
			if i == 500 {
				var lost *holdfast.LostError
				if !errors.As(err, &lost) || lost.Reason != driver.ReasonUnreachable {
					t.Errorf("the one that panics: got %v, want a loss", err)
				}
				continue
			}
			if err != nil {
				t.Errorf("job:%d: %v", i, err)
			}
			must.Unlock(t, k)
		}
	})
}

func TestRenewalsTravelTogetherAndSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: 30 * time.Second})
		const n = 10_000
		locks := make([]*holdfast.Lock, n)
		for i := range locks {
			locks[i] = must.Lock(t, l, fmt.Sprintf("job:%d", i))
		}
		var mu sync.Mutex
		claims, largest := 0, 0
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				mu.Lock()
				claims += len(cs)
				largest = max(largest, len(cs))
				mu.Unlock()
				return store.Backend.Renew(ctx, cs)
			}
		})
		calls := store.Renews.Load()
		time.Sleep(30 * time.Second)
		calls = store.Renews.Load() - calls
		mu.Lock()
		defer mu.Unlock()
		if claims < 3*n*9/10 || claims > 3*n*11/10 {
			t.Errorf("%d claims renewed in one lease, want about %d", claims, 3*n)
		}
		if calls > 150 {
			t.Errorf("%d calls for %d renewals, want at most 150", calls, claims)
		}
		if largest > 500 {
			t.Errorf("a call carried %d claims, want at most 500", largest)
		}
		for _, k := range locks {
			must.Unlock(t, k)
		}
	})
}

// A renewal counts from before its request too, and keeps the margin.
func TestLateRenewalGivesNoLongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
		lock := must.Lock(t, l, "job")
		var mu sync.Mutex
		var renewed time.Time // when the only renewal that was answered began
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				mu.Lock()
				first := renewed.IsZero()
				if first {
					renewed = time.Now()
				}
				mu.Unlock()
				if !first {
					return nil, faulty.Hang(ctx)
				}
				answers, err := store.Backend.Renew(ctx, cs)
				time.Sleep(300 * time.Millisecond)
				return answers, err
			}
		})
		<-lock.Context(t.Context()).Done()
		mu.Lock()
		defer mu.Unlock()
		between(t, "told after the renewal began", time.Since(renewed), ttl-margin, ttl-margin)
		if hs := holders(t, store, "job"); len(hs) != 1 || hs[0].Remaining != margin {
			t.Errorf("got %+v, want the lease with %v left", hs, margin)
		}
		_ = lock.Unlock()
	})
}
