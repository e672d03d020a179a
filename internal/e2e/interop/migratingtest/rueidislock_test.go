package migratingtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/rollover"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

func importWithRueidislock(ctx context.Context, locks rueidislock.Locker, work func(context.Context) error) error {
	ctx, unlock, err := locks.WithContext(ctx, "import")
	if err != nil {
		return err
	}
	defer unlock()
	return work(ctx)
}

func newImportLocker(client rueidis.Client) *holdfast.Locker {
	store := redishold.New(rueidisconn.New(client), &redishold.Options{
		Layout: redishold.Plain, KeyPrefix: "rueidislock:0:", Poll: 100 * time.Millisecond,
	})
	return holdfast.New(store, &holdfast.Options{TTL: 5 * time.Second}) // the default of KeyValidity
}

func importWithHoldfast(ctx context.Context, locker *holdfast.Locker, work func(context.Context) error) error {
	return locker.Mutex("import").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error {
		return work(ctx)
	})
}

func importWithBoth(ctx context.Context, locks rueidislock.Locker, locker *holdfast.Locker, work func(context.Context) error) error {
	return importWithRueidislock(ctx, locks, func(ctx context.Context) error { // always the old lock first
		return importWithHoldfast(ctx, locker, work)
	})
}

// rueidisClient returns a client of a server that t closes.
func rueidisClient(t *testing.T, server *redistest.Server) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// rueidisLocks returns locks with that majority of keys on one server.
func rueidisLocks(t *testing.T, server *redistest.Server, majority int32) rueidislock.Locker {
	t.Helper()
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}},
		KeyMajority:  majority, NoLoopTracking: true,
		TryNextAfter: time.Second, // a busy machine needs longer than the default of 20 ms
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(locks.Close)
	return locks
}

// waitsAgain returns a release that ends a wait after two seconds, and begins another. rueidislock
// 1.0.79 may miss the release that it waits for: a goroutine of a failed try can read the number of
// failures before the try has counted its own, and then it removes the gate of the waiter.
func waitsAgain(take rollover.Release) rollover.Release {
	return func(ctx context.Context, work func(context.Context) error) error {
		for {
			wait, end := context.WithCancel(ctx)
			var decided atomic.Bool // by the lock or by the timer
			timer := time.AfterFunc(2*time.Second, func() {
				if decided.CompareAndSwap(false, true) {
					end()
				}
			})
			late := true
			err := take(wait, func(held context.Context) error {
				if late = !decided.CompareAndSwap(false, true); late {
					return nil
				}
				return work(held)
			})
			if timer.Stop() {
				late = false // the error is that of take
			}
			end()
			if !late || ctx.Err() != nil {
				return err
			}
		}
	}
}

func TestFromRueidislock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks, locker := rueidisLocks(t, server, 1), newImportLocker(rueidisClient(t, server))
	t.Cleanup(func() { must.Drain(t, locker) })
	rollover.Test(t,
		waitsAgain(func(ctx context.Context, work func(context.Context) error) error {
			return importWithRueidislock(ctx, locks, work)
		}),
		func(ctx context.Context, work func(context.Context) error) error {
			return importWithHoldfast(ctx, locker, work)
		},
	)
}

// The locks of rueidislock with its default of three keys are not shared, so one release takes
// both locks.
func TestFromRueidislockWithBoth(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks := rueidisLocks(t, server, 2)
	locker := holdfast.New(redishold.New(rueidisconn.New(rueidisClient(t, server)), nil), nil)
	t.Cleanup(func() { must.Drain(t, locker) })
	rollover.Test(t,
		waitsAgain(func(ctx context.Context, work func(context.Context) error) error {
			return importWithRueidislock(ctx, locks, work)
		}),
		waitsAgain(func(ctx context.Context, work func(context.Context) error) error {
			return importWithBoth(ctx, locks, locker, work)
		}),
		func(ctx context.Context, work func(context.Context) error) error {
			return importWithHoldfast(ctx, locker, work)
		},
	)
}

// ForceWithContext takes the key of Holdfast, whose holder is notified at its next renewal.
func TestForcedByRueidislock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks, locker := rueidisLocks(t, server, 1), newImportLocker(rueidisClient(t, server))
	t.Cleanup(func() { must.Drain(t, locker) })
	lock := must.Lock(t, locker, "import")
	_, unlock, err := locks.ForceWithContext(await.Context(t, time.Minute), "import")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	select {
	case <-lock.Context(t.Context()).Done():
	case <-await.Context(t, time.Minute).Done():
		t.Fatal("the holder was not notified")
	}
	if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: got error %v, want ErrLost", err)
	}
}
