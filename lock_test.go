package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

func TestLockExcludesAndHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		a := holdfast.New(store, &holdfast.Options{Note: "a@one:1"})
		b := holdfast.New(store, &holdfast.Options{Note: "b@two:2"})

		held := must.Lock(t, a, "stock:42")
		_, err := b.TryLock(t.Context(), "stock:42")
		var busy *holdfast.BusyError
		if !errors.As(err, &busy) || !errors.Is(err, holdfast.ErrBusy) {
			t.Fatalf("TryLock of a held name: got %v, want a BusyError", err)
		}
		if busy.Holder != "a@one:1" || busy.Name != "stock:42" || busy.Remaining <= 0 {
			t.Fatalf("got %+v, want the holder's note, the name and the lease", busy)
		}

		got := make(chan *holdfast.Lock)
		go func() { got <- must.Lock(t, b, "stock:42") }()
		synctest.Wait()
		start := time.Now()
		must.Unlock(t, held)
		next := <-got
		if d := time.Since(start); d != 0 {
			t.Errorf("the waiter was woken after %v, want at once", d)
		}
		if next.Token() <= held.Token() {
			t.Errorf("token %d of the later holder is not larger than %d", next.Token(), held.Token())
		}
		must.Unlock(t, next)
		mustBeFree(t, store, "stock:42")
	})
}

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
		first := must.Lock(t, l, "job")
		var order []int
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				lock := must.Lock(t, l, "job")
				order = append(order, i) // the lock guards it
				must.Unlock(t, lock)
			})
			synctest.Wait()
		}
		if got := store.Tries.Load(); got != 1 {
			t.Errorf("the store was asked %d times while this process held the lock, want 1", got)
		}
		must.Unlock(t, first)
		wg.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("order of grants: %v, want that of arrival", order)
			}
		}
		if got := store.Tries.Load(); got != 101 {
			t.Errorf("the store was asked %d times for 101 locks", got)
		}
	})
}

func TestOneWaiterPerProcessAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		elsewhere := holdfast.New(store.Backend, nil)
		l := holdfast.New(store, nil)
		held := must.Lock(t, elsewhere, "job")
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() { must.Unlock(t, must.Lock(t, l, "job")) })
		}
		time.Sleep(10 * time.Second)
		if got := store.Tries.Load(); got > 15 {
			t.Errorf("1000 waiters asked the store %d times in 10 s, want about one a second", got)
		}
		must.Unlock(t, held)
		wg.Wait()
	})
}

func TestWaitLimits(t *testing.T) {
	tests := []struct {
		name string
		lock func(ctx context.Context, l *holdfast.Locker) error
		took time.Duration
		want error
	}{
		{"TryLock answers at once", func(ctx context.Context, l *holdfast.Locker) error {
			_, err := l.TryLock(ctx, "job")
			return err
		}, 0, holdfast.ErrBusy},
		{"Wait sets a limit to TryLock", func(ctx context.Context, l *holdfast.Locker) error {
			_, err := l.TryLock(ctx, "job", holdfast.Wait(2*time.Second))
			return err
		}, 2 * time.Second, holdfast.ErrBusy},
		{"Wait sets a limit to Lock", func(ctx context.Context, l *holdfast.Locker) error {
			_, err := l.Lock(ctx, "job", holdfast.Wait(3*time.Second))
			return err
		}, 3 * time.Second, holdfast.ErrBusy},
		{"a deadline answers the context's error", func(ctx context.Context, l *holdfast.Locker) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := l.Lock(ctx, "job")
			return err
		}, time.Second, context.DeadlineExceeded},
		{"the context comes before the limit", func(ctx context.Context, l *holdfast.Locker) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := l.TryLock(ctx, "job", holdfast.Wait(time.Minute))
			return err
		}, time.Second, context.DeadlineExceeded},
		{"a context that is over answers at once", func(ctx context.Context, l *holdfast.Locker) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, err := l.Lock(ctx, "free")
			return err
		}, 0, context.Canceled},
	}
	for _, where := range []string{"elsewhere", "in this process"} {
		for _, tt := range tests {
			t.Run(tt.name+", held "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memhold.New()
					l := holdfast.New(store, nil)
					holder := l
					if where == "elsewhere" {
						holder = holdfast.New(store, nil)
					}
					held := must.Lock(t, holder, "job")
					start := time.Now()
					err := tt.lock(t.Context(), l)
					if !errors.Is(err, tt.want) {
						t.Errorf("got %v, want %v", err, tt.want)
					}
					if tt.want != holdfast.ErrBusy && errors.Is(err, holdfast.ErrBusy) {
						t.Errorf("%v is ErrBusy too", err)
					}
					between(t, "time to the answer", time.Since(start), tt.took, tt.took)
					must.Unlock(t, held)
					must.Unlock(t, must.Lock(t, l, "job")) // a waiter that gave up does not block
					mustBeFree(t, store, "job")
					mustBeFree(t, store, "free")
				})
			})
		}
	}
}

func TestCancelledWaiterLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), nil)
		held := must.Lock(t, l, "job")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error)
		go func() {
			_, err := l.Lock(ctx, "job")
			gone <- err
		}()
		synctest.Wait()
		got := make(chan *holdfast.Lock)
		go func() { got <- must.Lock(t, l, "job") }()
		synctest.Wait()
		reason := errors.New("user went away")
		cancel(reason)
		err := <-gone
		if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
			t.Errorf("got %v, want the context's error and its cause", err)
		}
		must.Unlock(t, held)
		must.Unlock(t, <-got)
	})
}

func TestUnlockTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), nil)
		lock := must.Lock(t, l, "job")
		must.Unlock(t, lock)
		other := must.Lock(t, l, "job")
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
			t.Errorf("second Unlock: got %v, want ErrUnlocked", err)
		}
		if err := lock.Err(); !errors.Is(err, holdfast.ErrUnlocked) {
			t.Errorf("Err after Unlock: got %v, want ErrUnlocked", err)
		}
		if got := lock.Remaining(); got != 0 {
			t.Errorf("Remaining after Unlock: got %v, want 0", got)
		}
		if err := other.Err(); err != nil {
			t.Errorf("the next holder: %v", err)
		}
		must.Unlock(t, other)
		var none *holdfast.Lock
		if err := none.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
			t.Errorf("Unlock of a nil Lock: got %v, want ErrUnlocked", err)
		}
		if none.Name() != "" || none.Token() != 0 || none.Remaining() != 0 {
			t.Errorf("a nil Lock: got %q, token %d, %v, want zero values", none.Name(), none.Token(), none.Remaining())
		}
		if ended := none.Context(t.Context()); !errors.Is(context.Cause(ended), holdfast.ErrUnlocked) {
			t.Errorf("Context of a nil Lock: got the cause %v, want ErrUnlocked", context.Cause(ended))
		}
	})
}

func TestContextEndsWithTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), nil)
		lock := must.Lock(t, l, "job")
		parent, cancel := context.WithCancel(t.Context())
		early := lock.Context(parent)
		late := lock.Context(t.Context())
		cancel()
		<-early.Done()
		if late.Err() != nil {
			t.Fatal("a context ended with another one's parent")
		}
		must.Unlock(t, lock)
		<-late.Done()
		if got := context.Cause(late); !errors.Is(got, holdfast.ErrUnlocked) {
			t.Errorf("cause: got %v, want ErrUnlocked", got)
		}
		if got := context.Cause(lock.Context(t.Context())); !errors.Is(got, holdfast.ErrUnlocked) {
			t.Errorf("cause of a context made after Unlock: got %v, want ErrUnlocked", got)
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, &holdfast.Options{TTL: time.Second})

		got, err := holdfast.Do(t.Context(), l, "job", func(_ context.Context, k *holdfast.Lock) (uint64, error) {
			return k.Token(), k.Err()
		})
		if err != nil || got == 0 {
			t.Errorf("got %d, %v; want fn's token and no error", got, err)
		}
		mustBeFree(t, store, "job")

		oops := errors.New("oops")
		err = l.Mutex("job").Do(t.Context(), func(ctx context.Context, _ *holdfast.Lock) error {
			store.Drop("job")
			<-ctx.Done()
			return oops
		})
		if !errors.Is(err, oops) || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %v, want fn's error and ErrLost", err)
		}
		if !strings.HasPrefix(err.Error(), "oops") {
			t.Errorf("got %q, want fn's error first", err)
		}

		for what, do := range map[string]func(context.Context, func(context.Context, *holdfast.Lock) error, ...holdfast.Option) error{
			"Mutex": l.Mutex("job").Do, "Semaphore": l.Semaphore("permits", 1).Do,
			"Do": func(ctx context.Context, fn func(context.Context, *holdfast.Lock) error, opts ...holdfast.Option) error {
				_, err := holdfast.Do(ctx, l, "job", func(ctx context.Context, k *holdfast.Lock) (int, error) { return 0, fn(ctx, k) }, opts...)
				return err
			},
		} {
			for loss, fn := range map[string]func(context.Context, *holdfast.Lock) error{
				"cause": func(ctx context.Context, _ *holdfast.Lock) error { return context.Cause(ctx) },
				"Err":   func(_ context.Context, k *holdfast.Lock) error { return fmt.Errorf("stopped: %w", k.Err()) },
			} {
				err := do(t.Context(), func(ctx context.Context, k *holdfast.Lock) error {
					store.Drop(k.Name())
					<-ctx.Done()
					return fn(ctx, k)
				})
				if !errors.Is(err, holdfast.ErrLost) || strings.Count(err.Error(), "lost:") != 1 {
					t.Errorf("%s, fn returned the loss (%s): got %q, want it once", what, loss, err)
				}
			}
		}
		var inner error
		err = l.Mutex("job").Do(t.Context(), func(ctx context.Context, _ *holdfast.Lock) error {
			inner = l.Mutex("other").Do(context.WithoutCancel(ctx), func(inner context.Context, _ *holdfast.Lock) error {
				store.Drop("job")
				store.Drop("other")
				<-inner.Done()
				<-ctx.Done()
				return context.Cause(inner)
			})
			return inner
		})
		if !errors.Is(err, inner) || strings.Count(err.Error(), "lost:") != 2 {
			t.Errorf("two locks were lost: got %q, want both", err)
		}

		func() {
			defer func() { _ = recover() }()
			_ = l.Mutex("job").Do(t.Context(), func(context.Context, *holdfast.Lock) error { panic("oops") })
		}()
		mustBeFree(t, store, "job")
	})
}

func TestBadInput(t *testing.T) {
	tests := []struct {
		name string
		opts *holdfast.Options
		lock string
		opt  []holdfast.Option
		want string
	}{
		{"empty name", nil, "", nil, "name of the lock is empty"},
		{"negative TTL", &holdfast.Options{TTL: -1}, "a", nil, "TTL of -1ns is negative"},
		{"tiny TTL", &holdfast.Options{TTL: 9 * time.Millisecond}, "a", nil, "at least 10ms"},
		{"negative margin", &holdfast.Options{Margin: -1}, "a", nil, "margin of -1ns does not fit"},
		{"margin as long as the lease", &holdfast.Options{Margin: 30 * time.Second}, "a", nil, "less than half"},
		{"negative lease", nil, "a", []holdfast.Option{holdfast.FixedLease(-1)}, "lease of -1ns is negative"},
		{"no lease", nil, "a", []holdfast.Option{holdfast.FixedLease(0)}, "at least 10ms"},
		{"negative wait", nil, "a", []holdfast.Option{holdfast.Wait(-1)}, "wait of -1ns is negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := faulty.New()
			_, err := holdfast.New(store, tt.opts).Lock(t.Context(), tt.lock, tt.opt...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			if got := store.Tries.Load(); got != 0 {
				t.Errorf("the store was asked %d times, want 0", got)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []holdfast.EventType
		var last holdfast.Event
		store := memhold.New()
		l := holdfast.New(store, &holdfast.Options{TTL: 3 * time.Second, Observe: func(_ context.Context, e holdfast.Event) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, e.Type)
			last = e
		}})
		lock := must.Lock(t, l, "job")
		time.Sleep(1100 * time.Millisecond)
		must.Unlock(t, lock)
		lock = must.Lock(t, l, "job")
		store.Drop("job")
		time.Sleep(1100 * time.Millisecond)
		_ = lock.Unlock()
		synctest.Wait()
		want := []holdfast.EventType{"call", "acquire", "call", "renew", "call", "release", "call", "acquire", "call", "renew", "loss"}
		if len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
		if last.Reason != driver.ReasonDeleted || !errors.Is(last.Err, holdfast.ErrLost) || last.Token != lock.Token() {
			t.Errorf("got %+v, want the loss of the second lock, deleted", last)
		}
	})
}

func TestDoReturnsTheErrorItself(t *testing.T) {
	l := holdfast.New(memhold.New(), nil)
	mine := errors.New("mine")
	_, err := holdfast.Do(t.Context(), l, "job", func(context.Context, *holdfast.Lock) (int, error) { return 0, mine })
	if err != mine {
		t.Errorf("got %T, want fn's own error", err)
	}
}

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

// The holder of a lease with a fixed end is notified of a forced unlock as soon as that of
// a renewed one, also on a store that sends no notices.
func TestForcedLeaseIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		quiet := struct{ driver.Backend }{store} // no notices
		l, other := holdfast.New(quiet, &holdfast.Options{TTL: ttl}), holdfast.New(quiet, &holdfast.Options{TTL: ttl})
		k := must.Lock(t, l, "a", holdfast.FixedLease(time.Minute))
		time.Sleep(time.Second)
		if err := store.ForceUnlock(t.Context(), "a", holders(t, store, "a")[0], "stuck"); err != nil {
			t.Fatal(err)
		}
		second := must.Lock(t, other, "a")
		forced := time.Now()
		<-k.Context(t.Context()).Done()
		between(t, "notified after", time.Since(forced), 0, ttl/3)
		var lost *holdfast.LostError
		if err := k.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonForced {
			t.Errorf("got %v, want it forced", err)
		}
		must.Unlock(t, second)
	})
}
