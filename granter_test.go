package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// giving is a store that refuses the first try, and grants the claim by itself after a time.
type giving struct {
	*faulty.Store
	after    time.Duration // since the try
	validFor time.Duration // the lease of the grant; 0: it only wakes the waiter
	woken    func()        // just before a Wait returns
	released atomic.Int64
}

func newGiving(after, validFor time.Duration) *giving {
	g := &giving{Store: faulty.New(), after: after, validFor: validFor}
	g.OnTry = func(_ context.Context, c driver.Claim) (driver.Outcome, error) {
		if g.Tries.Load() == 1 {
			return driver.Outcome{RetryAfter: time.Minute, Queued: true}, nil
		}
		return driver.Outcome{Granted: true, Token: 9, ValidFor: c.TTL}, nil
	}
	g.OnRenew = func(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
		return []driver.Renewal{{ValidFor: cs[0].TTL}}, nil
	}
	g.OnRelease = func(context.Context, driver.Claim) error {
		g.released.Add(1)
		return nil
	}
	return g
}

func (g *giving) Waiter(driver.Claim) driver.Waiter { return givingWaiter{g} }

type givingWaiter struct{ store *giving }

func (w givingWaiter) Wait(context.Context, driver.Outcome) (driver.Outcome, error) {
	time.Sleep(w.store.after)
	if w.store.woken != nil {
		w.store.woken()
	}
	if w.store.validFor == 0 {
		return driver.Outcome{}, nil
	}
	return driver.Outcome{Granted: true, Token: 7, ValidFor: w.store.validFor}, nil
}

func (w givingWaiter) Close() {}

func TestGrantWhileWaiting(t *testing.T) {
	for name, test := range map[string]struct {
		after, validFor time.Duration
		opts            []holdfast.Option
		tries           int64
		token           uint64
		least, most     time.Duration // left of the lease
	}{
		// It counts from the try, and a tenth of it is the margin.
		"a short lease":          {500 * time.Millisecond, 4 * time.Second, nil, 1, 7, 3100 * time.Millisecond, 3100 * time.Millisecond},
		"little is left of it":   {500 * time.Millisecond, 800 * time.Millisecond, nil, 2, 9, 27 * time.Second, 27 * time.Second},
		"it was over long ago":   {900 * time.Millisecond, 500 * time.Millisecond, nil, 2, 9, 27 * time.Second, 27 * time.Second},
		"no grant, just a hint":  {500 * time.Millisecond, 0, nil, 2, 9, 27 * time.Second, 27 * time.Second},
		"the end has a limit":    {500 * time.Millisecond, 4 * time.Second, []holdfast.Option{holdfast.AtMost(time.Minute)}, 2, 9, 27 * time.Second, 27 * time.Second},
		"the end is to be fixed": {500 * time.Millisecond, 4 * time.Second, []holdfast.Option{holdfast.Lease(time.Minute)}, 2, 9, 57 * time.Second, 57 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newGiving(test.after, test.validFor)
				lock, err := holdfast.New(store, nil).FairMutex("a").Lock(t.Context(), test.opts...)
				if err != nil {
					t.Fatal(err)
				}
				if got := store.Tries.Load(); got != test.tries || lock.Token() != test.token {
					t.Errorf("got token %d after %d tries, want %d after %d", lock.Token(), got, test.token, test.tries)
				}
				between(t, "left of the lease", lock.Remaining(), test.least, test.most)
				must.Unlock(t, lock)
			})
		})
	}
}

// If a try had no answer and may still arrive, a grant to the waiter does not count before
// the next try.
func TestGrantAfterATryWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGiving(500*time.Millisecond, 4*time.Second)
		store.OnTry = func(_ context.Context, c driver.Claim) (driver.Outcome, error) {
			switch store.Tries.Load() {
			case 1:
				return driver.Outcome{}, errors.New("the reply is lost")
			case 2:
				return driver.Outcome{RetryAfter: time.Minute, Queued: true}, nil
			}
			return driver.Outcome{Granted: true, Token: 9, ValidFor: c.TTL}, nil
		}
		lock, err := holdfast.New(store, nil).FairMutex("a").Lock(t.Context())
		if err != nil || lock.Token() != 9 {
			t.Fatalf("got %v and error %v, want the token of the third try", lock, err)
		}
		must.Unlock(t, lock)
	})
}

// A grant with a short lease is soon renewed to its whole length. If that fails, the lock
// is lost in time.
func TestShortGrantIsRenewedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGiving(500*time.Millisecond, 4*time.Second)
		l := holdfast.New(store, nil)
		lock, err := l.FairMutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3100*time.Millisecond/3 - time.Millisecond)
		if got := store.Renews.Load(); got != 0 {
			t.Errorf("%d renewals within a third of the lease, want none: most locks are unlocked by then", got)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := store.Renews.Load(); got != 1 || lock.Remaining() < 26*time.Second {
			t.Errorf("after a third of the lease: %d renewals, %v left, want one", got, lock.Remaining())
		}
		time.Sleep(3 * time.Second)
		if got := store.Renews.Load(); got != 1 {
			t.Errorf("%d renewals, want no more for now", got)
		}
		must.Unlock(t, lock)
	})
	synctest.Test(t, func(t *testing.T) {
		store := newGiving(500*time.Millisecond, 4*time.Second)
		store.OnRenew = func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
			return nil, errors.New("unreachable")
		}
		began := time.Now()
		l := holdfast.New(store, nil)
		lock, err := l.FairMutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-lock.Context(t.Context()).Done()
		between(t, "the lock was held", time.Since(began), 3600*time.Millisecond, 3600*time.Millisecond)
		_ = lock.Unlock()
		drainNow(t, l)
	})
}

// A caller that gave up just when it was granted releases the lock.
func TestGrantToOneThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGiving(500*time.Millisecond, 4*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		store.woken = cancel
		l := holdfast.New(store, nil)
		lock, err := l.FairMutex("a").Lock(ctx)
		if lock != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v and error %v, want the context's error", lock, err)
		}
		drainNow(t, l)
		if got := store.released.Load(); got != 1 {
			t.Errorf("released %d times, want once", got)
		}
	})
}

func drainNow(t *testing.T, l *holdfast.Locker) {
	t.Helper()
	if err := l.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// A fair TryLock takes no place in the store's queue, and so has none to release.
func TestFairTryLockIsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		holder, err := holdfast.New(store.Backend, nil).FairMutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		store.OnRelease = func(context.Context, driver.Claim) error {
			t.Error("Release of a claim that was refused")
			return nil
		}
		l := holdfast.New(store, nil)
		if _, err := l.FairMutex("a").TryLock(t.Context()); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		drainNow(t, l)
		if tries := store.Tries.Load(); tries != 1 {
			t.Errorf("%d tries, want 1", tries)
		}
		must.Unlock(t, holder)
	})
}
