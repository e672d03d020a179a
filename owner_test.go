package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

func TestReentryUnderAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		ctx := holdfast.WithOwner(t.Context())
		holds := func() int {
			hs := holders(t, store, "job")
			if len(hs) != 1 {
				return 0
			}
			return hs[0].Holds
		}
		outer, err := l.Lock(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		inner, err := l.Lock(outer.Context(holdfast.WithOwner(ctx)), "job")
		if err != nil {
			t.Fatal(err)
		}
		if inner != outer || holds() != 2 {
			t.Fatalf("re-entry: got another lock (%t) and count %d, want the same and 2", inner != outer, holds())
		}
		if _, err := l.TryLock(ctx, "job"); err != nil || holds() != 3 {
			t.Fatalf("TryLock re-enters too: got %v and count %d, want 3", err, holds())
		}
		for want := 2; want >= 0; want-- {
			must.Unlock(t, inner)
			if got := holds(); got != want {
				t.Errorf("count after Unlock: got %d, want %d", got, want)
			}
			if want > 0 && inner.Err() != nil {
				t.Errorf("lock ended with a count of %d: %v", want, inner.Err())
			}
		}
		if err := inner.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
			t.Errorf("one Unlock too many: got %v, want ErrUnlocked", err)
		}
		again, err := l.Lock(ctx, "job")
		if err != nil || again == outer {
			t.Errorf("the tree's next lock: got %v, %v; want a new one", again, err)
		}
		must.Unlock(t, again)
		mustBeFree(t, store, "job")
	})
}

func TestOwnersExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(faulty.New(), nil)
		lock, err := l.Lock(holdfast.WithOwner(t.Context()), "job")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.TryLock(holdfast.WithOwner(t.Context()), "job"); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("another owner: got %v, want ErrBusy", err)
		}
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("no owner: got %v, want ErrBusy", err)
		}
		must.Unlock(t, lock)
	})
}

// someKey is the key of a value that does not concern locks.
type someKey struct{}

func TestTripwire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		lock := must.Lock(t, l, "job")
		ctx := lock.Context(t.Context())
		other := must.Lock(t, l, "other")
		for name, ctx := range map[string]context.Context{
			"same":         ctx,
			"derived":      context.WithValue(ctx, someKey{}, 1),
			"late owner":   holdfast.WithOwner(ctx),
			"through more": other.Context(ctx),
		} {
			for _, lock := range []func(context.Context, string, ...holdfast.Option) (*holdfast.Lock, error){l.Lock, l.TryLock} {
				start := time.Now()
				if _, err := lock(ctx, "job"); !errors.Is(err, holdfast.ErrDeadlock) {
					t.Errorf("%s: got %v, want ErrDeadlock", name, err)
				}
				between(t, name, time.Since(start), 0, 0)
			}
		}
		if got := store.Tries.Load(); got != 2 {
			t.Errorf("the store was asked %d times, want only for the two locks that are held", got)
		}
		must.Unlock(t, lock)
		again, err := l.TryLock(context.WithoutCancel(ctx), "job")
		if err != nil {
			t.Errorf("after Unlock the name is free: %v", err)
		}
		must.Unlock(t, again)
		must.Unlock(t, other)
	})
}

func TestReentryAfterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		ctx := holdfast.WithOwner(t.Context())
		old, err := l.Lock(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		store.Drop("job")
		if _, err := l.Lock(ctx, "job"); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("re-entry proves the hold: got %v, want ErrLost", err)
		}
		again, err := l.Lock(ctx, "job")
		if err != nil || again == old {
			t.Fatalf("after the loss: got %v, %v; want a new lock", again, err)
		}
		if err := old.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock of the lost lock: got %v, want ErrLost", err)
		}
		if err := again.Err(); err != nil {
			t.Errorf("Unlock of the lost lock ended the new one: %v", err)
		}
		must.Unlock(t, again)
		mustBeFree(t, store, "job")
	})
}

// After lost replies the count is still exact.
func TestCountIsExactWithLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		n := 0
		store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			answers, err := store.Backend.Renew(ctx, cs)
			if n++; n%2 == 1 {
				return nil, errReset
			}
			return answers, err
		}
		ctx := holdfast.WithOwner(t.Context())
		var lock *holdfast.Lock
		for want := 1; want <= 10; want++ {
			var err error
			if lock, err = l.Lock(ctx, "job"); err != nil {
				t.Fatal(err)
			}
			if got := holders(t, store, "job")[0].Holds; got != want {
				t.Fatalf("count: got %d, want %d", got, want)
			}
		}
		for range 10 {
			must.Unlock(t, lock)
		}
		mustBeFree(t, store, "job")
	})
}

func TestReentryDoesNotExtendAFixedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(faulty.New(), &holdfast.Options{TTL: time.Second})
		ctx := holdfast.WithOwner(t.Context())
		lock, err := l.Lock(ctx, "job", holdfast.Lease(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ends := lock.Context(t.Context())
		time.Sleep(30 * time.Second)
		if _, err := l.Lock(ctx, "job"); err != nil {
			t.Fatal(err)
		}
		<-ends.Done()
		between(t, "the lock ended", time.Since(start), 59*time.Second, time.Minute)
		_ = lock.Unlock()
		_ = lock.Unlock()
	})
}

func TestGoroutinesOfOneOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		other := must.Lock(t, holdfast.New(store.Backend, nil), "job")
		ctx := holdfast.WithOwner(t.Context())
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				lock, err := l.Lock(ctx, "job")
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				must.Unlock(t, lock)
			})
		}
		time.Sleep(time.Second)
		must.Unlock(t, other)
		wg.Wait()
		mustBeFree(t, store, "job")
	})
}

func TestLockAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l, other := holdfast.New(store, nil), holdfast.New(store, nil)
		a, b, c := l.Mutex("a"), l.Mutex("b"), l.Mutex("c")

		locks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{c, a, b})
		if err != nil || len(locks) != 3 {
			t.Fatalf("got %v, %v", locks, err)
		}
		ctx := locks.Context(t.Context())
		store.Drop("b")
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), holdfast.ErrLost) || !errors.Is(locks.Err(), holdfast.ErrLost) {
			t.Errorf("one was lost: cause %v, Err %v, want ErrLost", context.Cause(ctx), locks.Err())
		}
		if err := locks.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: got %v, want ErrLost", err)
		}
		for _, name := range []string{"a", "b", "c"} {
			mustBeFree(t, store, name)
		}

		held := must.Lock(t, other, "b")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := holdfast.LockAll(short, []*holdfast.Mutex{a, b, c}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		mustBeFree(t, store, "a")
		must.Unlock(t, held)

		if _, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{a, b, l.Mutex("a")}); !errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("named twice: got %v, want ErrDeadlock", err)
		}
		none, err := holdfast.LockAll(t.Context(), nil)
		if err != nil || none.Unlock() != nil {
			t.Errorf("none at all: %v", err)
		}
	})
}

// Philosophers who take their forks in any order do not deadlock.
func TestLockAllCannotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		lockers := []*holdfast.Locker{holdfast.New(store, nil), holdfast.New(store, nil)}
		names := []string{"a", "b", "c", "d", "e"}
		var wg sync.WaitGroup
		for i := range names {
			for _, l := range lockers {
				wg.Go(func() {
					left, right := l.Mutex(names[i]), l.Mutex(names[(i+1)%len(names)])
					for range 20 {
						locks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{left, right})
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(time.Millisecond)
						if err := locks.Unlock(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
	})
}
