package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
			"AtLeast": holdfast.AtLeast(time.Second), "wait": holdfast.Wait(-time.Second), "lease": holdfast.Lease(-time.Second),
		} {
			if _, err := holdfast.LockAll(t.Context(), all, wrong); err == nil || !strings.Contains(err.Error(), `lock "a": `+option) {
				t.Errorf("got %v, want an error about %s", err, option)
			}
		}
		locks, err := holdfast.LockAll(t.Context(), all, holdfast.Lease(time.Second), holdfast.Note("the nightly job"))
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
