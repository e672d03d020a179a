package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// forgetful is a store without tombstones. It executes a call a while after it was sent,
// also if the caller has given up: then a Try may come after the Release that followed it.
type forgetful struct {
	*memhold.Backend
	after  time.Duration
	tries  atomic.Int64
	panics bool // instead of an answer
	claims bool // declares tombstones
}

func (f *forgetful) Info() driver.Info {
	info := f.Backend.Info()
	info.Caps.Tombstones = f.claims
	return info
}

func (f *forgetful) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	f.tries.Add(1)
	answers := make(chan []driver.Attempt, 1)
	go func() {
		time.Sleep(f.after)
		answers <- f.Backend.TryAll(context.WithoutCancel(ctx), cs)
	}()
	select {
	case all := <-answers:
		if f.panics {
			panic("a bug of the store")
		}
		return all
	case <-ctx.Done():
		all := make([]driver.Attempt, len(cs))
		for i := range all {
			all[i].Err = ctx.Err()
		}
		return all
	}
}

func (f *forgetful) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	one := f.TryAll(ctx, []driver.Claim{c})[0]
	return one.Outcome, one.Err
}

func (f *forgetful) Release(ctx context.Context, c driver.Claim) error {
	c.Indeterminate = false
	return f.Backend.Release(ctx, c)
}

func (f *forgetful) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	for i, c := range cs {
		errs[i] = f.Release(ctx, c)
	}
	return errs
}

// A caller that gives up during a try gets its answer at once, and leaves nothing behind,
// also if the store executes the try later and has no tombstones.
func TestGivenUpTryLeavesNothingBehind(t *testing.T) {
	for name, lock := range map[string]func(context.Context, *holdfast.Locker) error{
		"Lock": func(ctx context.Context, l *holdfast.Locker) error {
			_, err := l.Lock(ctx, "a")
			return err
		},
		"Lock of a fair mutex": func(ctx context.Context, l *holdfast.Locker) error {
			_, err := l.FairMutex("a").Lock(ctx)
			return err
		},
		"TryLock": func(ctx context.Context, l *holdfast.Locker) error {
			_, err := l.TryLock(ctx, "a")
			return err
		},
		"TryLock that waits": func(_ context.Context, l *holdfast.Locker) error {
			_, err := l.TryLock(context.Background(), "a", holdfast.Wait(50*time.Millisecond))
			return err
		},
		"LockAll": func(ctx context.Context, l *holdfast.Locker) error {
			_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &forgetful{Backend: memhold.New(), after: 300 * time.Millisecond}
			l := holdfast.New(store, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := lock(ctx, l); err == nil {
				t.Fatalf("%s: got a lock, want an error", name)
			}
			if took := time.Since(began); took > 75*time.Millisecond {
				t.Errorf("%s: returned after %v, want it at most 25 ms after its context", name, took)
			}
			if err := l.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			for _, n := range []string{"a", "b"} {
				if hs := holders(t, store, n); len(hs) != 0 {
					t.Errorf("%s: %q is held by %s, want nothing left behind", name, n, hs[0].Owner)
				}
			}
			if n := store.tries.Load(); n != 1 {
				t.Errorf("%s: %d tries, want one", name, n)
			}
		})
	}
}

// oneByOne is a context whose children end one after the other, the last one first. Package
// context promises no order: a child may live on for a moment when its parent has ended.
type oneByOne struct {
	context.Context
	ended    chan struct{}
	children []func()
}

func (c *oneByOne) Done() <-chan struct{} { return c.ended }

func (c *oneByOne) Err() error {
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

// AfterFunc is the method by which package context lets a child end with c.
func (c *oneByOne) AfterFunc(f func()) func() bool {
	c.children = append(c.children, f)
	return func() bool { return false }
}

func (c *oneByOne) end() {
	close(c.ended)
	for _, end := range slices.Backward(c.children) {
		synctest.Wait()
		end()
	}
}

// LockAll makes no second try when its context has ended, also if a context that it
// derived from it ends a moment later.
func TestLockAllMakesNoTryAfterItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &forgetful{Backend: memhold.New(), after: 300 * time.Millisecond}
		l := holdfast.New(store, nil)
		ctx := &oneByOne{Context: t.Context(), ended: make(chan struct{})}
		result := make(chan error, 1)
		go func() {
			_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")})
			result <- err
		}()
		synctest.Wait()
		ctx.end()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := store.tries.Load(); n != 1 {
			t.Errorf("%d tries, want one", n)
		}
	})
}

// If a try panics, its grant is released, and its name is free in this process, too.
func TestTryThatPanicsLeavesNothingBehind(t *testing.T) {
	for _, test := range []struct{ tombstones, several bool }{{}, {tombstones: true}, {several: true}, {tombstones: true, several: true}} {
		synctest.Test(t, func(t *testing.T) {
			store := &forgetful{Backend: memhold.New(), panics: true, claims: test.tombstones}
			l := holdfast.New(store, nil)
			defer func() {
				if p := recover(); p != "a bug of the store" {
					t.Errorf("got panic %v, want the store's", p)
				}
				if err := l.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if hs := holders(t, store, "a"); len(hs) != 0 {
					t.Errorf("a is held by %s, want nothing left behind", hs[0].Owner)
				}
				store.panics = false
				k, err := l.TryLock(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				must.Unlock(t, k)
			}()
			if test.several {
				_, _ = holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")})
			}
			_, _ = l.Lock(t.Context(), "a")
		})
	}
}

// A caller that waits long enough gets the lock from a store without tombstones as from any
// other.
func TestLocksOfAStoreWithoutTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &forgetful{Backend: memhold.New(), after: 100 * time.Millisecond}
		l, other := holdfast.New(store, nil), holdfast.New(store, nil)
		k := must.Lock(t, l, "a")
		if _, err := other.TryLock(t.Context(), "a"); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("got %v, want it busy", err)
		}
		must.Unlock(t, k)
		must.Unlock(t, must.Lock(t, other, "a"))
		all, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")})
		if err != nil || len(all) != 2 {
			t.Fatalf("got %d locks and error %v", len(all), err)
		}
		must.UnlockAll(t, all)
	})
}

// stacked is a store without tombstones that keeps the stack of its last try.
type stacked struct {
	*memhold.Backend
	stack string
}

func (s *stacked) Info() driver.Info {
	info := s.Backend.Info()
	info.Caps.Tombstones = false
	return info
}

func (s *stacked) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	stack := make([]byte, 1<<16)
	s.stack = string(stack[:runtime.Stack(stack, false)])
	return s.Backend.Try(ctx, c)
}

// A caller whose context never ends cannot give up, so its try needs no other goroutine. It is
// bounded in time all the same.
func TestTryOfACallerThatCannotGiveUp(t *testing.T) {
	store := &stacked{Backend: memhold.New()}
	l := holdfast.New(store, nil)
	lock := func(ctx context.Context) {
		k, err := l.Lock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		must.Unlock(t, k)
	}
	for ctx, itself := range map[context.Context]bool{context.Background(): true, t.Context(): false} {
		lock(ctx)
		if got := strings.Contains(store.stack, "TestTryOfACallerThatCannotGiveUp("); got != itself {
			t.Errorf("%v: the caller makes its try itself: %v, want %v", ctx, got, itself)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		slow := &forgetful{Backend: memhold.New(), after: time.Hour}
		if _, err := holdfast.New(slow, nil).TryLock(context.Background(), "a"); err == nil || !strings.Contains(err.Error(), "no answer from the store") {
			t.Errorf("got %v from a store that does not answer", err)
		}
		time.Sleep(2 * time.Hour) // until its calls have ended
	})
}

// A panic of the store after its caller has given up is logged, and the program goes on.
func TestPanicOfAStoreWithoutTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &forgetful{Backend: memhold.New(), after: 100 * time.Millisecond, panics: true}
		l := holdfast.New(store, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := l.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "a bug of the store") {
			t.Errorf("got log %q, want the panic in it", log.String())
		}
		if hs := holders(t, store, "a"); len(hs) != 0 {
			t.Errorf("a is held by %s, want nothing left behind", hs[0].Owner)
		}
	})
}

// busy is a store without tombstones whose calls take a while.
type busy struct {
	*memhold.Backend
	now, most, all atomic.Int64 // releases
}

func (b *busy) Info() driver.Info {
	info := b.Backend.Info()
	info.Caps.Tombstones = false
	return info
}

func (b *busy) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	time.Sleep(20 * time.Millisecond)
	return b.Backend.Try(ctx, c)
}

func (b *busy) Release(ctx context.Context, c driver.Claim) error {
	b.all.Add(1)
	n := b.now.Add(1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	time.Sleep(20 * time.Millisecond)
	b.now.Add(-1)
	return b.Backend.Release(ctx, c)
}

// A thousand calls that are given up at once are released in the background by a bounded
// number of goroutines, and within a lease and a second.
func TestGivenUpCallsHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, most, ttl = 1000, 32, 2 * time.Second
		store := &busy{Backend: memhold.New()}
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		ctx, giveUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				if _, err := l.Lock(ctx, fmt.Sprint("job ", i)); !errors.Is(err, context.Canceled) {
					t.Errorf("Lock of a caller that gave up: got error %v", err)
				}
			})
		}
		synctest.Wait() // all tries are under way
		giveUp()
		wg.Wait()
		began := time.Now()
		must.Drain(t, l)
		if took := time.Since(began); took > ttl+time.Second || store.all.Load() != calls || store.most.Load() != most {
			t.Errorf("got %d releases, %d at once, within %v; want %d, %d at once, within %v", store.all.Load(), store.most.Load(), took, calls, most, ttl+time.Second)
		}
		for i := range calls {
			must.Unlock(t, must.Lock(t, l, fmt.Sprint("job ", i), holdfast.Wait(0)))
		}
	})
}
