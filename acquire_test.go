package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

var errReset = errors.New("connection reset")

// A lost reply is no lost lock: the same claim asks again, and is granted once.
func TestLostReplyOfAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		lost := 1
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			out, err := store.Backend.Try(ctx, c)
			if lost > 0 {
				lost--
				return driver.Outcome{}, errReset
			}
			return out, err
		}
		for _, lock := range map[string]func() (*holdfast.Lock, error){
			"Lock":    func() (*holdfast.Lock, error) { return l.Lock(t.Context(), "job") },
			"TryLock": func() (*holdfast.Lock, error) { return l.TryLock(t.Context(), "job") },
		} {
			lost = 1
			k, err := lock()
			if err != nil {
				t.Fatalf("a reply was lost, the store answered the next: %v", err)
			}
			if hs := holders(t, store, "job"); len(hs) != 1 || hs[0].Holds != 1 {
				t.Errorf("got %+v, want one holder, once", hs)
			}
			must.Unlock(t, k)
			mustBeFree(t, store, "job")
		}
	})
}

// No error of a store ever becomes a lock, and nothing is left in the store.
func TestErrorsAreNoLocks(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		tries int64 // of TryLock; 1 means that the error came at once
	}{
		{"refused", fmt.Errorf("%w: NOPERM", driver.ErrRefused), 1},
		{"mismatch", fmt.Errorf("%w: a list", driver.ErrMismatch), 1},
		{"unknown", errReset, 3},
		{"not sent", fmt.Errorf("%w: connection refused", driver.ErrNotExecuted), 3},
		{"end of file", io.EOF, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, nil)
				store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
					if _, err := store.Backend.Try(ctx, c); err != nil {
						return driver.Outcome{}, err
					}
					if errors.Is(tt.err, driver.ErrNotExecuted) || errors.Is(tt.err, driver.ErrMismatch) {
						_ = store.Backend.Release(ctx, c)
					}
					return driver.Outcome{}, tt.err
				}
				start := time.Now()
				lock, err := l.TryLock(t.Context(), "job")
				if lock != nil || !errors.Is(err, tt.err) {
					t.Fatalf("got %v, %v; want no lock and the store's error", lock, err)
				}
				between(t, "time to the error", time.Since(start), 0, 100*time.Millisecond)
				if got := store.Tries.Load(); got != tt.tries {
					t.Errorf("the store was asked %d times, want %d", got, tt.tries)
				}
				synctest.Wait()
				mustBeFree(t, store, "job")
			})
		})
	}
}

// Lock goes on asking a store that is unreachable, and its error names both.
func TestLockWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		down := fmt.Errorf("%w: connection refused", driver.ErrNotExecuted)
		store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) { return driver.Outcome{}, down }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := l.Lock(ctx, "job")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrNotExecuted) {
			t.Errorf("got %v, want the context's error and the store's", err)
		}
		between(t, "waited", time.Since(start), time.Minute, time.Minute)
		if got := store.Tries.Load(); got > 400 {
			t.Errorf("asked %d times in a minute", got)
		}
		time.AfterFunc(10*time.Second, func() { store.Change(func() { store.OnTry = nil }) })
		start = time.Now()
		must.Unlock(t, must.Lock(t, l, "job"))
		between(t, "got the lock", time.Since(start), 10*time.Second, 10500*time.Millisecond)
	})
}

// If a store hangs, the caller's context ends the call, and a late grant is released.
func TestHungStoreHonoursTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		arrive := make(chan struct{})
		var claim atomic.Pointer[driver.Claim]
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			claim.Store(&c)
			return driver.Outcome{}, faulty.Hang(ctx)
		}
		var releases atomic.Int64
		store.OnRelease = func(ctx context.Context, c driver.Claim) error {
			select {
			case <-arrive:
				releases.Add(1)
				return store.Backend.Release(ctx, c)
			default:
				return faulty.Hang(ctx)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := l.Lock(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		between(t, "returned", time.Since(start), 300*time.Millisecond, 325*time.Millisecond) // the store cannot remove the claim now

		// The store answers again. The clean-up reaches it first, and then the next try.
		time.Sleep(2 * time.Second)
		close(arrive)
		time.Sleep(1300 * time.Millisecond)
		if releases.Load() == 0 {
			t.Fatal("nothing was cleaned up within 1.3 s of the store's return")
		}
		if out, err := store.Backend.Try(t.Context(), *claim.Load()); err == nil && out.Granted {
			t.Error("a try that arrived after its claim was given up was granted")
		}
		mustBeFree(t, store, "job")
	})
}

// Clean-up stops after one TTL: the store has dropped the claim by itself then.
func TestCleanUpIsBoundedByOneTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) { return driver.Outcome{}, errReset }
		start := time.Now()
		var last atomic.Int64
		store.OnRelease = func(context.Context, driver.Claim) error {
			last.Store(int64(time.Since(start)))
			return errReset
		}
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, errReset) {
			t.Fatalf("got %v, want the store's error", err)
		}
		time.Sleep(10 * ttl)
		between(t, "last clean-up", time.Duration(last.Load()), ttl/2, ttl+100*time.Millisecond)
	})
}

func TestLostReplyOfUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		lock := must.Lock(t, l, "job")
		lost := true
		store.OnRelease = func(ctx context.Context, c driver.Claim) error {
			err := store.Backend.Release(ctx, c)
			if lost {
				lost = false
				return errReset
			}
			return err
		}
		if err := lock.Unlock(); err != nil {
			t.Errorf("got %v: the first release was executed, only its reply was lost", err)
		}
		mustBeFree(t, store, "job")
	})
}

func TestUnlockOfHungStoreIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		lock := must.Lock(t, l, "job")
		store.OnRelease = func(ctx context.Context, _ driver.Claim) error { return faulty.Hang(ctx) }
		start := time.Now()
		err := lock.Unlock()
		if err == nil || errors.Is(err, holdfast.ErrLost) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want an error that says what is going on", err)
		}
		between(t, "Unlock took", time.Since(start), time.Second, 3*time.Second)
		store.Change(func() { store.OnRelease = nil })
		time.Sleep(10 * time.Second)
		mustBeFree(t, store, "job")
	})
}

// If the store sends no wake-up, a waiter waits for a second longer at most.
func TestNoWakeUpIsNeeded(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"no message": func(ctx context.Context) error { return faulty.Hang(ctx) },
		"no channel": func(context.Context) error { return errors.New("NOPERM") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &deaf{Store: faulty.New(), wait: wait}
				l := holdfast.New(store, nil)
				other := holdfast.New(store.Backend, nil)
				for i := range 20 {
					held := must.Lock(t, other, "job")
					var free time.Time
					time.AfterFunc(time.Duration(i)*77*time.Millisecond+time.Second, func() {
						free = time.Now()
						must.Unlock(t, held)
					})
					lock := must.Lock(t, l, "job")
					between(t, "waited for a free lock", time.Since(free), 0, time.Second)
					must.Unlock(t, lock)
				}
			})
		})
	}
}

// deaf is a store that wakes no waiter.
type deaf struct {
	*faulty.Store
	wait func(context.Context) error
}

func (d *deaf) Waiter(driver.Claim) driver.Waiter { return deafWaiter{d.wait} }

type deafWaiter struct{ wait func(context.Context) error }

func (w deafWaiter) Wait(ctx context.Context, _ driver.Outcome) (driver.Outcome, error) {
	return driver.Outcome{}, w.wait(ctx)
}
func (w deafWaiter) Close() {}

func TestCounterIsExact(t *testing.T) {
	store := faulty.New()
	lockers := []*holdfast.Locker{holdfast.New(store, nil), holdfast.New(store, nil), holdfast.New(store, nil)}
	counter, last := 0, uint64(0)
	done := make(chan error)
	const goroutines, rounds = 60, 50
	for i := range goroutines {
		go func() {
			for range rounds {
				lock, err := lockers[i%len(lockers)].Lock(t.Context(), "counter")
				if err != nil {
					done <- err
					return
				}
				counter++ // the race detector watches this
				if lock.Token() <= last {
					t.Errorf("token %d after %d", lock.Token(), last)
				}
				last = lock.Token()
				if err := lock.Unlock(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range goroutines {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if counter != goroutines*rounds {
		t.Errorf("got %d, want %d", counter, goroutines*rounds)
	}
	mustBeFree(t, store, "counter")
}

// Drain returns when no background work is left.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		if err := l.Drain(t.Context()); err != nil {
			t.Fatalf("with nothing to do: %v", err)
		}
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			_, _ = store.Backend.Try(ctx, c)
			return driver.Outcome{}, errReset
		}
		store.OnRelease = func(context.Context, driver.Claim) error { return errReset }
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, errReset) {
			t.Fatalf("got %v, want the store's error", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the clean-up fails: got %v, want the context's error", err)
		}
		store.Change(func() { store.OnRelease = nil })
		if err := l.Drain(t.Context()); err != nil {
			t.Errorf("got %v", err)
		}
		mustBeFree(t, store, "job")
	})
}
