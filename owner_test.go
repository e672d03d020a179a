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
		lock, err := l.Lock(ctx, "job", holdfast.FixedLease(time.Minute))
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

// frozen makes a store answer no renewal, and so record no count, until thaw is called.
func frozen(store *faulty.Store) (thaw func()) {
	store.Change(func() {
		store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
	})
	return func() { store.Change(func() { store.OnRenew = nil }) }
}

// ownedKinds returns the kinds of locks that an owner counts.
func ownedKinds(l *holdfast.Locker) map[string]*holdfast.Mutex {
	return map[string]*holdfast.Mutex{
		"mutex": l.Mutex("job"), "fair": l.FairMutex("job"), "read": l.RWMutex("job").Read, "write": l.RWMutex("job").Write,
	}
}

// As many Unlocks as Locks end the hold, also if an Unlock comes while another goroutine of
// the owner re-enters and the store does not answer.
func TestEveryUnlockCounts(t *testing.T) {
	for name := range ownedKinds(holdfast.New(faulty.New(), nil)) {
		for _, pause := range []time.Duration{time.Second, 4 * time.Second, 10 * time.Second} {
			t.Run(name+" "+pause.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := faulty.New()
					m := ownedKinds(holdfast.New(store, nil))[name]
					ctx := holdfast.WithOwner(t.Context())
					lock, err := m.Lock(ctx)
					if err != nil {
						t.Fatal(err)
					}
					thaw := frozen(store)
					time.AfterFunc(pause, thaw)
					entered := make(chan *holdfast.Lock, 1)
					go func() {
						again, err := m.Lock(ctx)
						if err != nil {
							t.Error(err)
						}
						entered <- again
					}()
					synctest.Wait()
					if err := lock.Unlock(); err != nil {
						t.Errorf("the first Unlock: %v", err)
					}
					again := <-entered
					if err := again.Err(); err != nil {
						t.Errorf("held once, got %v", err)
					}
					must.Unlock(t, again)
					mustBeFree(t, store, "job")
				})
			})
		}
	}
}

// A re-entry that gives up does not keep a lock that all others have unlocked.
func TestReentryThatGivesUpKeepsNothing(t *testing.T) {
	for name := range ownedKinds(holdfast.New(faulty.New(), nil)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, nil)
				m := ownedKinds(l)[name]
				ctx := holdfast.WithOwner(t.Context())
				lock, err := m.Lock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				frozen(store)
				gaveUp := make(chan error, 1)
				start := time.Now()
				go func() {
					_, err := m.TryLock(ctx, holdfast.Wait(5*time.Second))
					gaveUp <- err
				}()
				synctest.Wait()
				must.Unlock(t, lock)
				if err := <-gaveUp; err == nil {
					t.Error("the re-entry was confirmed by a store that does not answer")
				}
				between(t, "gave up", time.Since(start), 5*time.Second, 5*time.Second)
				drainNow(t, l)
				mustBeFree(t, store, "job")
				if err := lock.Err(); !errors.Is(err, holdfast.ErrUnlocked) {
					t.Errorf("the lock: got %v, want ErrUnlocked", err)
				}
			})
		})
	}
}

// An Unlock that lowers the count waits for a store that does not answer, but not
// longer than the lease.
func TestInnerUnlockEndsWithTheLease(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			l := holdfast.New(store, &holdfast.Options{TTL: ttl})
			ctx := holdfast.WithOwner(t.Context())
			lock, err := l.Lock(ctx, "job")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Lock(ctx, "job"); err != nil {
				t.Fatal(err)
			}
			frozen(store)
			time.Sleep(lock.Remaining() - 300*time.Millisecond)
			start := time.Now()
			if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("TTL %v: got %v, want ErrLost", ttl, err)
			}
			between(t, "the inner Unlock", time.Since(start), 0, 300*time.Millisecond)
			if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("TTL %v, the last Unlock: got %v, want ErrLost", ttl, err)
			}
		})
	}
}

// All holders of a lost lock may use the rest of its lease to stop: only the last Unlock
// releases it.
func TestLostLockIsGivenBackByTheLastUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		ctx := holdfast.WithOwner(t.Context())
		lock, err := l.Lock(ctx, "job", holdfast.FixedLease(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Lock(ctx, "job"); err != nil {
			t.Fatal(err)
		}
		<-lock.Context(t.Context()).Done() // at the margin before the end of the lease
		for left := 1; left >= 0; left-- {
			if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
			synctest.Wait()
			if got := len(holders(t, store, "job")); got != left {
				t.Errorf("with %d holders at work the store has %d", left, got)
			}
		}
	})
}

// A caller that holds a name as one kind and asks for it as another would wait for itself,
// so it gets an error.
func TestKindsOfOneNameUnderAnOwner(t *testing.T) {
	kinds := []string{"mutex", "fair", "read", "write"}
	for _, first := range kinds {
		for _, second := range kinds {
			if first == second || first == "write" && second == "read" { // re-entry, and a downgrade
				continue
			}
			t.Run(first+" then "+second, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := faulty.New()
					l := holdfast.New(store, nil)
					ms := ownedKinds(l)
					for what, ctx := range map[string]context.Context{"owner": holdfast.WithOwner(t.Context()), "no owner": t.Context()} {
						lock, err := ms[first].Lock(ctx)
						if err != nil {
							t.Fatal(err)
						}
						for _, try := range []func(context.Context, ...holdfast.Option) (*holdfast.Lock, error){ms[second].Lock, ms[second].TryLock} {
							from := ctx
							if what == "no owner" {
								from = lock.Context(ctx) // only this context shows that a caller waits for itself
							}
							from, cancel := context.WithTimeout(from, time.Minute)
							if _, err := try(from); !errors.Is(err, holdfast.ErrDeadlock) {
								t.Errorf("%s: got %v, want ErrDeadlock", what, err)
							}
							cancel()
						}
						must.Unlock(t, lock)
						mustBeFree(t, store, "job")
						other, err := ms[second].Lock(ctx)
						if err != nil {
							t.Fatalf("%s: the name is free: %v", what, err)
						}
						must.Unlock(t, other)
					}
				})
			})
		}
	}
}

// If a name comes twice, LockAll would wait for its own lock, whatever the kinds are.
func TestLockAllOfOneNameTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l, other := holdfast.New(store, nil), holdfast.New(faulty.New(), nil)
		for _, ctx := range []context.Context{t.Context(), holdfast.WithOwner(t.Context())} {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			for first, a := range ownedKinds(l) {
				for second, b := range ownedKinds(l) {
					if _, err := holdfast.LockAll(ctx, []*holdfast.Mutex{a, l.Mutex("z"), b}); !errors.Is(err, holdfast.ErrDeadlock) {
						t.Errorf("%s and %s: got %v, want ErrDeadlock", first, second, err)
					}
				}
			}
			locks, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("job"), other.FairMutex("job")})
			if err != nil {
				t.Fatalf("one name in two stores: %v", err)
			}
			must.UnlockAll(t, locks)
			cancel()
		}
		if got := store.Tries.Load(); got > 2 {
			t.Errorf("the store was asked %d times", got)
		}
	})
}

// Each change of a count is a call to the store, and observed as one.
func TestReentryIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		calls := make(map[string]int)
		l := holdfast.New(store, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventCall {
				calls[e.Op]++
				if e.Name != "job" || e.Kind != "mutex" || e.Err != nil {
					t.Errorf("got %+v", e)
				}
			}
		}})
		ctx := holdfast.WithOwner(t.Context())
		var lock *holdfast.Lock
		for range 4 {
			var err error
			if lock, err = l.Lock(ctx, "job"); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			must.Unlock(t, lock)
		}
		if calls[holdfast.OpTry] != 1 || calls[holdfast.OpRenew] != 6 || calls[holdfast.OpRelease] != 1 {
			t.Errorf("four Locks and Unlocks: observed %v, want 1 try, 6 renew, 1 release", calls)
		}
	})
}
