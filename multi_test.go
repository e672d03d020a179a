package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// Wait bounds a LockAll as a whole. Then LockAll returns the holder that it waited for, and
// holds nothing.
func TestLockAllWaits(t *testing.T) {
	for name, test := range map[string]struct {
		wait, a, b time.Duration // other clients hold a and b for so long
		took       time.Duration
		busy       string // the name that another client holds; none if LockAll succeeds
	}{
		"does not wait":      {0, 0, time.Hour, 0, "b"},
		"waits for one":      {3 * time.Second, 0, time.Hour, 3 * time.Second, "b"},
		"waits for another":  {3 * time.Second, 2 * time.Second, time.Hour, 3 * time.Second, "b"},
		"stops at the first": {3 * time.Second, 5 * time.Second, 4 * time.Second, 3 * time.Second, "a"},
		"gets all":           {3 * time.Second, time.Second, 2 * time.Second, 2 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memhold.New()
				l, other := holdfast.New(store, nil), holdfast.New(store, &holdfast.Options{Note: "ci-7"})
				for held, until := range map[string]time.Duration{"a": test.a, "b": test.b} {
					if until > 0 {
						lock := must.Lock(t, other, held)
						time.AfterFunc(until, func() { must.Unlock(t, lock) })
					}
				}
				began := time.Now()
				locks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("b"), l.Mutex("a"), l.Mutex("c")}, holdfast.Wait(test.wait))
				if took := time.Since(began); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if err != nil {
					must.Drain(t, l)
				}
				var busy *holdfast.BusyError
				switch errors.As(err, &busy) {
				case true:
					if busy.Name != test.busy || busy.Holder != "ci-7" {
						t.Errorf("got %v, want that ci-7 holds %q", err, test.busy)
					}
					for _, free := range []string{"a", "b", "c"} {
						if free != test.busy && (free != "b" || test.b == 0) {
							mustBeFree(t, store, free)
						}
					}
				case false:
					if err != nil || test.busy != "" {
						t.Errorf("got %v, want that %q is busy", err, test.busy)
					}
					must.UnlockAll(t, locks)
				}
				time.Sleep(2 * time.Hour)
				must.Drain(t, other)
			})
		})
	}
}

// If a store does not answer, LockAll returns after Wait.
func TestLockAllWaitsForASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(silent{memhold.New()}, nil)
		began := time.Now()
		_, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")}, holdfast.Wait(100*time.Millisecond))
		if took := time.Since(began); err == nil || errors.Is(err, holdfast.ErrBusy) || took > 150*time.Millisecond {
			t.Errorf("got %v after %v", err, took)
		}
		must.Drain(t, l)
	})
}

// silent is a store that answers no try.
type silent struct{ *memhold.Backend }

func (s silent) Try(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
	return driver.Outcome{}, faulty.Hang(ctx)
}

func (s silent) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	answers := make([]driver.Attempt, len(cs))
	for i := range answers {
		answers[i].Err = faulty.Hang(ctx)
	}
	return answers
}

// The options of a LockAll are those of each of its locks. An option that no lock can have
// is an error before anything is sent.
func TestLockAllOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l, other := holdfast.New(store, nil), holdfast.New(store, nil)
		all := []*holdfast.Mutex{l.Mutex("a"), l.RWMutex("b").Write}
		for option, wrong := range map[string]holdfast.Option{
			"AtLeast": holdfast.AtLeast(time.Second), "wait": holdfast.Wait(-time.Second), "lease": holdfast.FixedLease(-time.Second),
		} {
			if _, err := holdfast.LockAll(t.Context(), all, wrong); err == nil || !strings.Contains(err.Error(), `lock "a": `+option) {
				t.Errorf("got %v, want an error about %s", err, option)
			}
		}
		locks, err := holdfast.LockAll(t.Context(), all, holdfast.FixedLease(time.Second), holdfast.Note("the nightly job"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.TryLock(t.Context(), "a")
		if busy := new(holdfast.BusyError); !errors.As(err, &busy) || busy.Holder != "the nightly job" {
			t.Errorf("got %v, want the note of the LockAll", err)
		}
		time.Sleep(time.Second)
		if err := locks.Err(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("after the lease: got %v, want ErrLost", err)
		}
		for _, name := range []string{"a", "b"} {
			must.Unlock(t, must.Lock(t, other, name))
		}
		must.Drain(t, l)
	})
}

// The function runs with all locks, and its context ends with the first loss. The locks are
// released however the function ends.
func TestDoAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		all := []*holdfast.Mutex{l.Mutex("b"), l.Mutex("a")}
		mine := errors.New("mine")
		for name, test := range map[string]struct {
			fn   func(context.Context, holdfast.Locks) error
			want error
		}{
			"returns nil":   {func(context.Context, holdfast.Locks) error { return nil }, nil},
			"returns error": {func(context.Context, holdfast.Locks) error { return mine }, mine},
			"loses one": {func(ctx context.Context, locks holdfast.Locks) error {
				store.Drop(locks[1].Name())
				<-ctx.Done()
				return context.Cause(ctx)
			}, holdfast.ErrLost},
		} {
			if err := holdfast.DoAll(t.Context(), all, test.fn); !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", name, err, test.want)
			}
			mustBeFree(t, store, "a")
			mustBeFree(t, store, "b")
		}
		held := must.Lock(t, l, "a")
		if err := holdfast.DoAll(t.Context(), all, nil, holdfast.Wait(0)); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		must.Unlock(t, held)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic has not come through")
				}
			}()
			_ = holdfast.DoAll(t.Context(), all, func(context.Context, holdfast.Locks) error { panic("mine") })
		}()
		mustBeFree(t, store, "a")
		must.Drain(t, l)
	})
}

// instant is a store that answers several calls at once without an allocation.
type instant struct {
	*memhold.Backend
	grants []driver.Attempt
}

func (s *instant) TryAll(_ context.Context, cs []driver.Claim) []driver.Attempt {
	return s.grants[:len(cs)]
}

func (s *instant) ReleaseAll(_ context.Context, cs []driver.Claim) []error {
	return make([]error, len(cs))
}

// A LockAll allocates its slices once for all of its locks, and an owner for each. Go 1.26 needs
// one allocation less than the bounds.
func TestLockAllAllocations(t *testing.T) {
	store := &instant{memhold.New(), slices.Repeat([]driver.Attempt{{Outcome: driver.Outcome{Granted: true, Token: 1, ValidFor: time.Minute}}}, 100)}
	l := holdfast.New(store, nil)
	for _, c := range []struct{ n, most int }{{2, 13}, {8, 22}, {100, 114}} {
		ms := make([]*holdfast.Mutex, c.n)
		for i := range ms {
			ms[i] = l.Mutex(fmt.Sprint("stock:", i))
		}
		got := testing.AllocsPerRun(100, func() {
			locks, err := holdfast.LockAll(context.Background(), ms)
			if err != nil {
				t.Fatal(err)
			}
			must.UnlockAll(t, locks)
		})
		if got > float64(c.most) {
			t.Errorf("%d locks: got %v allocations, want at most %d", c.n, got, c.most)
		}
	}
}

// The note of a call belongs to its hold alone: a goroutine that waited for the lock has
// its own.
func TestNoteOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { noteOfACall(t, memhold.New()) })
	synctest.Test(t, func(t *testing.T) { noteOfACall(t, unfenced{memhold.New()}) }) // a store where a hold is passed on at once
}

func noteOfACall(t *testing.T, store driver.Backend) {
	l, other := holdfast.New(store, &holdfast.Options{Note: "ci-7"}), holdfast.New(store, nil)
	holder := func(of *holdfast.Locker) string {
		_, err := of.TryLock(t.Context(), "job")
		busy := new(holdfast.BusyError)
		if !errors.As(err, &busy) {
			t.Fatalf("got %v, want ErrBusy", err)
		}
		return busy.Holder
	}
	lock := must.Lock(t, l, "job", holdfast.Note("order 7"))
	next := make(chan *holdfast.Lock)
	for _, opts := range [][]holdfast.Option{nil, {holdfast.Note("order 8")}} {
		if here, there := holder(l), holder(other); here != there || strings.Contains(here, "ci-7") != (opts != nil) {
			t.Errorf("held by %q, others are informed of %q", here, there)
		}
		go func() { next <- must.Lock(t, l, "job", opts...) }()
		synctest.Wait()
		must.Unlock(t, lock)
		lock = <-next
	}
	if here, there := holder(l), holder(other); here != "order 8" || there != here {
		t.Errorf("held by %q, others are informed of %q", here, there)
	}
	time.Sleep(time.Minute) // it is renewed
	if there := holder(other); there != "order 8" {
		t.Errorf("after its renewals it is held by %q", there)
	}
	must.Unlock(t, lock)
	must.Drain(t, l)
}

// With two Lockers in each of two processes, LockAll deadlocked in half of the runs.
func TestLockAllOverSeveralStores(t *testing.T) {
	bad := 0
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			a, b := memhold.New(), memhold.New()
			p1a, p1b := holdfast.New(a, nil), holdfast.New(b, nil)
			p2a, p2b := holdfast.New(a, nil), holdfast.New(b, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			done := make(chan error, 2)
			for _, ms := range [][]*holdfast.Mutex{{p1a.Mutex("x"), p1b.Mutex("y")}, {p2a.Mutex("x"), p2b.Mutex("y")}} {
				go func() {
					for range 50 {
						ks, err := holdfast.LockAll(ctx, ms)
						if err != nil {
							done <- err
							return
						}
						time.Sleep(time.Millisecond)
						_ = ks.Unlock()
					}
					done <- nil
				}()
			}
			e1, e2 := <-done, <-done
			if e1 != nil || e2 != nil {
				bad++
			}
		})
	}
	if bad > 0 {
		t.Errorf("%d of 20 deadlocked for an hour", bad)
	}
}

// hangingBatch is a store that answers no batch of releases while it hangs.
type hangingBatch struct {
	*faulty.Store
	hangs atomic.Bool
}

func (h *hangingBatch) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	if !h.hangs.Load() {
		return h.Store.ReleaseAll(ctx, cs)
	}
	errs := make([]error, len(cs))
	for i := range errs {
		errs[i] = faulty.Hang(ctx)
	}
	return errs
}

// LockAll ends with its context, or with Wait, while the store hangs. Drain waits for the
// locks that it had taken.
func TestLockAllEndsWithItsContext(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		},
		"wait": context.WithCancel,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				h := &hangingBatch{Store: store}
				l, other := holdfast.New(h, nil), holdfast.New(store.Backend, nil)
				held := must.Lock(t, other, "b")
				ctx, cancel := end(t.Context())
				defer cancel()
				time.AfterFunc(time.Second/2, func() {
					h.hangs.Store(true)
					hangs(store)
				})
				began := time.Now()
				var opts []holdfast.Option
				if name == "wait" {
					opts = []holdfast.Option{holdfast.Wait(time.Second)}
				}
				_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")}, opts...)
				between(t, "LockAll took", time.Since(began), time.Second, 1050*time.Millisecond)
				if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ctx.Err()) && ctx.Err() != nil {
					t.Errorf("got %v, want %v", err, ctx.Err())
				}
				h.hangs.Store(false)
				store.Change(func() { store.OnTry = nil })
				must.Unlock(t, held)
				must.Drain(t, l)
				mustBeFree(t, store, "a")
			})
		})
	}
}

// LockAll returns at once if a lock is lost while it waits for another.
func TestLockAllLosesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l, other := holdfast.New(store, &holdfast.Options{TTL: ttl}), holdfast.New(store.Backend, nil)
		held := must.Lock(t, other, "c")
		time.AfterFunc(time.Second, func() {
			if err := store.ForceUnlock(t.Context(), "b", holders(t, store, "b")[0], "stuck"); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b"), l.Mutex("c")})
		between(t, "LockAll took", time.Since(began), time.Second, time.Second+ttl/3)
		var lost *holdfast.LostError
		if !errors.As(err, &lost) || lost.Name != "b" || lost.Reason != driver.ReasonForced || !strings.Contains(err.Error(), `while LockAll waited for lock "c"`) {
			t.Errorf("got %v, want that b was forced while c was waited for", err)
		}
		if errors.Is(err, context.Canceled) {
			t.Errorf("got %v, and the caller's context has not ended", err)
		}
		must.Unlock(t, held)
		must.Drain(t, l)
		for _, name := range []string{"a", "b", "c"} {
			mustBeFree(t, store, name)
		}
	})
}

// A holder that only waits for the end of a context of its lock keeps the lock. When the
// context has ended, it does not refer to the lock any more.
func TestContextKeepsItsLock(t *testing.T) {
	var r recorder
	l := holdfast.New(memhold.New(), &holdfast.Options{Observe: r.observe})
	ctx, cancel := context.WithCancel(t.Context())
	wait := make(chan struct{})
	go func() {
		defer close(wait)
		<-must.Lock(t, l, "leader").Context(ctx).Done()
	}()
	collected := func(name string) bool {
		return slices.ContainsFunc(r.of(holdfast.EventRelease), func(e holdfast.Event) bool { return e.Name == name })
	}
	collect := func(name string) {
		for deadline := time.Now().Add(10 * time.Second); !collected(name); runtime.Gosched() {
			if runtime.GC(); time.Now().After(deadline) {
				t.Fatalf("%s: no event after 10s", name)
			}
		}
	}
	for len(r.of(holdfast.EventAcquire)) == 0 {
		runtime.Gosched()
	}
	must.Lock(t, l, "dropped")
	collect("dropped")
	if collected("leader") {
		t.Error("the lock was given up, and its holder waits for its end")
	}
	cancel()
	<-wait
	collect("leader")
	must.Drain(t, l)
}

// The release of several locks in one call has no answer. A goroutine of this process that waits
// for one of them gets it when its own release is confirmed, and does not wait for the others.
func TestUnlockOfSeveralWaitsForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		h := &unansweredBatch{store}
		l := holdfast.New(h, nil)
		locks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")})
		if err != nil {
			t.Fatal(err)
		}
		store.Change(func() {
			store.OnRelease = func(ctx context.Context, c driver.Claim) error {
				if c.Name == "b" {
					return faulty.Hang(ctx)
				}
				return store.Backend.Release(ctx, c)
			}
		})
		got := make(chan time.Time, 1)
		go func() {
			next, err := l.Lock(t.Context(), "a")
			got <- time.Now()
			if err == nil {
				err = next.Unlock()
			}
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		began := time.Now()
		if err := locks.Unlock(); err == nil {
			t.Error("Unlock: got no error, want that b is not confirmed")
		}
		if took := (<-got).Sub(began); took > time.Second {
			t.Errorf("the waiter for a got it after %v, want that it does not wait for b", took)
		}
		store.Change(func() { store.OnRelease = nil })
		must.Drain(t, l)
	})
}

// unansweredBatch is a store that answers no release of several locks.
type unansweredBatch struct{ *faulty.Store }

func (*unansweredBatch) ReleaseAll(_ context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	for i := range errs {
		errs[i] = errors.New("connection reset")
	}
	return errs
}
