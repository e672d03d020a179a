package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
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

// All claims of a Locker have its id and different numbers. The owner consists of both, and
// stays the same from the first try to the release.
func TestClaimsSayWhoseTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		owners := map[string]uint64{} // of a client: the numbers
		clients := map[string]bool{}
		calls := 0
		watch := func(c driver.Claim) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			clients[c.Client] = true
			owners[c.Owner] = c.Seq
			if want := fmt.Sprintf("%s:%d", c.Client, c.Seq); c.Client == "" || c.Seq == 0 || c.Owner != want {
				t.Errorf("got owner %q of client %q with number %d, want %q", c.Owner, c.Client, c.Seq, want)
			}
		}
		l := holdfast.New(&watched{memhold.New(), watch}, &holdfast.Options{TTL: 3 * time.Second})
		k := must.Lock(t, l, "a")
		all, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("b"), l.Mutex("c")})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		must.Unlock(t, k)
		must.UnlockAll(t, all)
		if len(clients) != 1 || len(owners) != 3 || calls < 60 {
			t.Errorf("got %d calls for %d owners of %d clients, want 3 owners of one client", calls, len(owners), len(clients))
		}
	})
}

// watched records the claims of all calls.
type watched struct {
	*memhold.Backend
	show func(driver.Claim)
}

func (w *watched) all(cs []driver.Claim) {
	for _, c := range cs {
		w.show(c)
	}
}

func (w *watched) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	w.show(c)
	return w.Backend.Try(ctx, c)
}

func (w *watched) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	w.all(cs)
	return w.Backend.TryAll(ctx, cs)
}

func (w *watched) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	w.all(cs)
	return w.Backend.Renew(ctx, cs)
}

func (w *watched) Release(ctx context.Context, c driver.Claim) error {
	w.show(c)
	return w.Backend.Release(ctx, c)
}

func (w *watched) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	w.all(cs)
	return w.Backend.ReleaseAll(ctx, cs)
}

// hangs makes the store answer no try.
func hangs(store *faulty.Store) {
	store.Change(func() {
		store.OnTry = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
			return driver.Outcome{}, faulty.Hang(ctx)
		}
	})
}

// The time in the queue of this process counts as time of the option Wait.
func TestWaitCountsTheLocalQueue(t *testing.T) {
	for name, tombstones := range map[string]bool{"with tombstones": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				var b driver.Backend = store
				if !tombstones {
					b = lacking{store, func(c *driver.Caps) { c.Tombstones = false }}
				}
				l := holdfast.New(b, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
				held := must.Lock(t, l, "a")
				time.AfterFunc(290*time.Millisecond, func() {
					must.Unlock(t, held)
				})
				hangs(store)
				began := time.Now()
				_, err := l.TryLock(t.Context(), "a", holdfast.Wait(300*time.Millisecond))
				between(t, "Wait(300ms) took", time.Since(began), 300*time.Millisecond, 345*time.Millisecond) // one round trip, and the time for the removal of the claim
				if err == nil || errors.Is(err, holdfast.ErrBusy) {
					t.Errorf("got %v, want that the store does not answer", err)
				}
				store.Change(func() { store.OnTry = nil })
				must.Drain(t, l)
			})
		})
	}
}

// The times of a BusyError are those of its end, also if the last answer of the store is older.
func TestBusyErrorIsOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		lock := must.Lock(t, holdfast.New(store, nil), "a")
		time.Sleep(2 * time.Second)
		_, err := holdfast.New(store, nil).Lock(t.Context(), "a", holdfast.Wait(700*time.Millisecond))
		var busy *holdfast.BusyError
		if !errors.As(err, &busy) || busy.HeldFor != 2700*time.Millisecond || busy.Remaining != 27300*time.Millisecond {
			t.Errorf("got %#v, want a lock that is held for 2.7 s, with 27.3 s left", err)
		}
		must.Unlock(t, lock)
	})
}

// When the time of a call is over, the lock is reported as held only if that was the last answer
// of the store. With Wait, the error is never that of a context, because the caller's context has
// not ended.
func TestErrorWhenTimeRunsOut(t *testing.T) {
	for _, inContext := range []bool{false, true} {
		t.Run(fmt.Sprint("in a context: ", inContext), func(t *testing.T) { errorWhenTimeRunsOut(t, inContext) })
	}
}

func errorWhenTimeRunsOut(t *testing.T, inContext bool) {
	const wait = 3 * time.Second
	errReset := errors.New("connection reset")
	reset := func(context.Context, driver.Claim) (driver.Outcome, error) { return driver.Outcome{}, errReset }
	hang := func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
		return driver.Outcome{}, faulty.Hang(ctx)
	}
	for name, test := range map[string]struct {
		held  bool // the store answers that the lock is held, at first
		then  func(context.Context, driver.Claim) (driver.Outcome, error)
		local bool // another goroutine of the process asks the store
		busy  bool
		want  error
		text  string
	}{
		"busy":                          {held: true, busy: true},
		"busy, by the head":             {held: true, local: true, busy: true},
		"busy, then it hangs":           {held: true, then: hang, text: "no answer"},
		"hangs":                         {then: hang, text: "no answer"},
		"hangs, as the head learns":     {then: hang, local: true, text: "no answer"},
		"fails":                         {then: reset, want: errReset},
		"fails, as the head learns":     {then: reset, local: true, want: errReset},
		"busy, then it fails":           {held: true, then: reset, want: errReset},
		"busy, then the head sees that": {held: true, then: reset, local: true, want: errReset},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l, other := holdfast.New(store, nil), holdfast.New(store.Backend, nil)
				if test.held {
					defer must.Unlock(t, must.Lock(t, other, "a"))
				}
				fail := func() { store.Change(func() { store.OnTry = test.then }) }
				if !test.held {
					fail()
				}
				if test.local {
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						_, _ = l.Lock(ctx, "a")
					}()
					defer func() { cancel(); <-ended }()
					synctest.Wait()
				}
				if test.then != nil {
					time.AfterFunc(time.Second/2, fail)
				}
				err := lockWithin(t, l, wait, inContext)
				held := errors.Is(err, holdfast.ErrBusy)
				if inContext {
					held = strings.Contains(err.Error(), "held by")
				}
				if held != test.busy {
					t.Errorf("got %v, want a lock that is held: %t", err, test.busy)
				}
				if errors.Is(err, context.DeadlineExceeded) != inContext || errors.Is(err, context.Canceled) {
					t.Errorf("got %v, and the context of the caller has ended: %t", err, inContext)
				}
				if test.want != nil && !errors.Is(err, test.want) || !inContext && !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, want %v %s", err, test.want, test.text)
				}
				store.Change(func() { store.OnTry = nil })
			})
		})
	}
}

// lockWithin returns the error of a call that waits for the lock "a" for a time: until the end of
// its context, or with the option Wait.
func lockWithin(t *testing.T, l *holdfast.Locker, wait time.Duration, inContext bool) error {
	ctx := t.Context()
	opts := []holdfast.Option{holdfast.Wait(wait)}
	if inContext {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
		opts = nil
	}
	_, err := l.Lock(ctx, "a", opts...)
	return err
}

// If other goroutines of the process get the lock repeatedly, it is busy, also at a moment
// in which one of them asks the store for it.
func TestWaitBehindOthersIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			time.Sleep(15 * time.Millisecond)
			return store.Backend.Try(ctx, c)
		}
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for {
					lock, err := l.Lock(ctx, "a")
					if err != nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
					must.Unlock(t, lock)
				}
			})
		}
		time.Sleep(time.Second)
		for ctx.Err() == nil {
			lock, err := l.TryLock(t.Context(), "a", holdfast.Wait(217*time.Millisecond))
			if err == nil { // the others have just ended
				must.Unlock(t, lock)
			} else if !errors.Is(err, holdfast.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		}
		wg.Wait()
		must.Drain(t, l)
	})
}

// A goroutine that waits rarely asks the store. The last answer to it counts for the
// goroutines behind it, however short they wait, also for another goroutine of the same
// owner.
func TestWaitBehindOneThatWaitsIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l, other := holdfast.New(store, nil), holdfast.New(store.Backend, nil)
		held := must.Lock(t, other, "a")
		for what, ctx := range map[string]context.Context{"a process": t.Context(), "an owner": holdfast.WithOwner(t.Context())} {
			waiting, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = l.Lock(waiting, "a")
			}()
			time.Sleep(3 * time.Second)
			for _, wait := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second} {
				var busy *holdfast.BusyError
				if _, err := l.TryLock(ctx, "a", holdfast.Wait(wait)); !errors.As(err, &busy) || busy.Remaining <= 0 {
					t.Errorf("%s, Wait(%v): got %v, want ErrBusy with the end of the lease", what, wait, err)
				}
			}
			cancel()
			<-ended
		}
		must.Unlock(t, held)
		must.Drain(t, l)
	})
}

// While one goroutine of an owner has no answer of the store, another one does not report
// busy.
func TestWaitBehindTheOwnerWithoutAnswer(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			l := holdfast.New(store, nil)
			ctx := holdfast.WithOwner(t.Context())
			if again {
				lock, err := l.Lock(ctx, "a")
				if err != nil {
					t.Fatal(err)
				}
				defer must.Unlock(t, lock)
			}
			hangs(store)
			store.Change(func() {
				store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
			})
			first, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = l.Lock(first, "a")
			}()
			synctest.Wait()
			if _, err := l.TryLock(ctx, "a", holdfast.Wait(time.Second)); err == nil || errors.Is(err, holdfast.ErrBusy) || !strings.Contains(err.Error(), "no answer") {
				t.Errorf("re-entry %t: got %v, want that there was no answer", again, err)
			}
			cancel()
			<-ended
			store.Change(func() { store.OnTry, store.OnRenew = nil, nil })
			must.Drain(t, l)
		})
	}
}

// The error of a Lock behind a goroutine that gets no answer does not depend on an observer.
func TestErrorBehindNoAnswer(t *testing.T) {
	texts := map[bool]string{}
	for _, observed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			var o holdfast.Options
			if observed {
				o.Observe = func(context.Context, holdfast.Event) {}
			}
			l := holdfast.New(store, &o)
			time.Sleep(time.Minute) // so that the Locker is older than the call
			hangs(store)
			first, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = l.Lock(first, "a")
			}()
			synctest.Wait()
			ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			_, err := l.Lock(ctx, "a")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want that the deadline is exceeded", err)
			}
			texts[observed] = fmt.Sprint(err)
			cancel()
			<-ended
			store.Change(func() { store.OnTry = nil })
			must.Drain(t, l)
		})
	}
	if texts[false] != texts[true] || strings.Contains(texts[false], "held by") {
		t.Errorf("got %q without an observer, %q with one, want the same, and no holder", texts[false], texts[true])
	}
}

// A re-entry, and a caller that does not wait, return the same error if the store hangs.
func TestNoErrorOfAContextThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		ctx := holdfast.WithOwner(t.Context())
		lock := must.Lock(t, l, "other")
		outer, err := l.Lock(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		hangs(store)
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) {
				return nil, faulty.Hang(ctx)
			}
		})
		for what, call := range map[string]func() (*holdfast.Lock, error){
			"re-entry": func() (*holdfast.Lock, error) { return l.TryLock(ctx, "a", holdfast.Wait(time.Second)) },
			"TryLock":  func() (*holdfast.Lock, error) { return l.TryLock(t.Context(), "b") },
		} {
			if _, err := call(); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer") {
				t.Errorf("%s: got %v, want that there was no answer", what, err)
			}
		}
		store.Change(func() { store.OnTry, store.OnRenew = nil, nil })
		must.Unlock(t, outer)
		must.Unlock(t, lock)
		must.Drain(t, l)
	})
}

// A lease that is too short for the store is an error after some tries, and the name is
// free for others then.
func TestLeaseTooShortForTheStore(t *testing.T) {
	for name, test := range map[string]struct {
		ttl     time.Duration
		opts    []holdfast.Option
		honours bool // calls end with their contexts
	}{
		"Lease":                      {0, []holdfast.Option{holdfast.FixedLease(100 * time.Millisecond)}, false},
		"Lease, calls that are over": {0, []holdfast.Option{holdfast.FixedLease(100 * time.Millisecond)}, true},
		"TTL":                        {100 * time.Millisecond, nil, false},
		"TTL, calls that are over":   {100 * time.Millisecond, nil, true},
		"of one trip":                {0, []holdfast.Option{holdfast.FixedLease(50 * time.Millisecond)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				trip := func(ctx context.Context) error {
					if !test.honours {
						ctx = context.WithoutCancel(ctx)
					}
					return sleep(ctx, 30*time.Millisecond)
				}
				store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
					if err := trip(ctx); err != nil {
						return driver.Outcome{}, err
					}
					out, err := store.Backend.Try(ctx, c)
					if err := trip(ctx); err != nil {
						return driver.Outcome{}, err
					}
					return out, err
				}
				l, near := holdfast.New(store, &holdfast.Options{TTL: test.ttl}), holdfast.New(store.Backend, nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := l.Lock(ctx, "a", test.opts...)
				if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "of a lease of") {
					t.Fatalf("got %v after %v, want that the lease is too short", err, time.Since(began))
				}
				least, most := time.Duration(0), time.Second
				if test.ttl != 0 { // the store may be slow only now
					least, most = 10*time.Second, 15*time.Second
				}
				between(t, "the error came after", time.Since(began), least, most)
				must.Drain(t, l)
				must.Unlock(t, must.Lock(t, near, "a"))
			})
		})
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A claim was granted in an answer that was lost, and then ended by force. The acquire asks
// again, because its caller never had the lock.
func TestForcedBeforeItsCallerKnew(t *testing.T) {
	for name, opts := range map[string][]holdfast.Option{"Lock": nil, "Lease": {holdfast.FixedLease(time.Minute)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				forced := ""
				store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
					switch forced {
					case "":
						out, err := store.Backend.Try(ctx, c)
						if err != nil || !out.Granted {
							t.Fatalf("got %+v, %v", out, err)
						}
						if err := store.ForceUnlock(ctx, c.Name, holders(t, store, c.Name)[0], "stuck"); err != nil {
							t.Fatal(err)
						}
						forced = c.Owner
						return driver.Outcome{}, errors.New("connection reset")
					case c.Owner: // as Redis answers
						return driver.Outcome{}, &driver.GoneError{Reason: driver.ReasonForced}
					}
					return store.Backend.Try(ctx, c)
				}
				l := holdfast.New(store, nil)
				must.Unlock(t, must.Lock(t, l, "a", opts...))
				must.Drain(t, l)
				mustBeFree(t, store, "a")
			})
		})
	}
}

// holders returns the holders of name, as the store lists them.
func holders(t *testing.T, b admin.Source, name string) []admin.Holder {
	t.Helper()
	records, err := b.Get(context.Background(), name)
	if err != nil {
		t.Fatalf("Get(%q): %v", name, err)
	}
	var hs []admin.Holder
	for _, h := range records[0].Holds {
		hs = append(hs, h.Holder)
	}
	return hs
}

// mustBeFree fails unless name has no holder.
func mustBeFree(t *testing.T, b admin.Source, name string) {
	t.Helper()
	if hs := holders(t, b, name); len(hs) != 0 {
		t.Fatalf("%q is held by %+v, want nobody", name, hs)
	}
}

// between fails unless lo <= got <= hi.
func between(t *testing.T, what string, got, lo, hi time.Duration) {
	t.Helper()
	if got < lo || got > hi {
		t.Fatalf("%s: got %v, want %v to %v", what, got, lo, hi)
	}
}

// A caller that gives up gets the last answer of the store, also if later calls had none.
func TestLastAnswerOfTheStore(t *testing.T) {
	notNow := errors.New("READONLY")
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		store.Change(func() {
			said := false
			store.OnTry = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
				if !said {
					said = true
					return driver.Outcome{}, notNow
				}
				<-ctx.Done()
				return driver.Outcome{}, ctx.Err()
			}
		})
		l := holdfast.New(store, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := l.Lock(ctx, "job"); !errors.Is(err, notNow) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error and what the store said", err)
		}
	})
}

// The client of a store may end a call at its deadline by a timer of its own. That is no
// failure of the store: the lock is busy.
func TestLastTryEndsWithTheWait(t *testing.T) {
	for range 50 { // the timers of one moment fire in any order
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			l := holdfast.New(store, nil)
			held := must.Lock(t, holdfast.New(store, nil), "job")
			store.Change(func() {
				answers := 1
				store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
					if answers--; answers >= 0 {
						return store.Backend.Try(ctx, c)
					}
					ends, _ := ctx.Deadline()
					time.Sleep(time.Until(ends))
					return driver.Outcome{}, context.DeadlineExceeded
				}
			})
			_, err := l.TryLock(t.Context(), "job", holdfast.Wait(1200*time.Millisecond))
			if busy := new(holdfast.BusyError); !errors.As(err, &busy) {
				t.Errorf("got %v, want a BusyError", err)
			}
			must.Unlock(t, held)
			must.Drain(t, l)
		})
	}
}

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
		"the end is to be fixed": {500 * time.Millisecond, 4 * time.Second, []holdfast.Option{holdfast.FixedLease(time.Minute)}, 2, 9, 57 * time.Second, 57 * time.Second},
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

// A waiter of a fair lock gives up while the store answers no release, for two of its TTLs.
// Its place lasts longer than its TTL. The next waiter gets the lock as soon as the store
// answers again, and not when the place ends.
func TestPlaceIsReleasedAfterTheTTL(t *testing.T) {
	const timeout, ttl, silent = 100 * time.Millisecond, time.Second, 2 * time.Second
	for name, lost := range map[string]bool{"refused": false, "without an answer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				held := mustFair(t, holdfast.New(store, nil))
				answers := time.Now().Add(timeout + silent)
				store.Change(func() {
					store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
						out, err := store.Backend.Try(ctx, c)
						if lost && !out.Granted {
							return driver.Outcome{}, faulty.Hang(ctx)
						}
						return out, err
					}
					store.OnRelease = func(ctx context.Context, c driver.Claim) error {
						if time.Now().Before(answers) {
							return faulty.Hang(ctx)
						}
						return store.Backend.Release(ctx, c)
					}
				})
				l := holdfast.New(store, &holdfast.Options{TTL: ttl})
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				if lock, err := l.FairMutex("job").Lock(ctx); err == nil {
					t.Fatalf("got %v, want no lock", lock)
				}
				time.Sleep(silent)
				store.Change(func() { store.OnTry = nil })
				must.Unlock(t, held)
				began := time.Now()
				must.Unlock(t, mustFair(t, holdfast.New(store, nil)))
				between(t, "the next waiter waited for", time.Since(began), 0, ttl)
				must.Drain(t, l)
			})
		})
	}
}

func mustFair(t *testing.T, l *holdfast.Locker) *holdfast.Lock {
	t.Helper()
	lock, err := l.FairMutex("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// The store grants too late, and then hangs until the time is over: the error says what is known.
func TestSlowStoreThatHangsInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		tries := 0
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			if tries++; tries > 1 {
				return driver.Outcome{}, faulty.Hang(ctx)
			}
			out, err := store.Backend.Try(ctx, c)
			out.ValidFor = 100 * time.Millisecond
			time.Sleep(90 * time.Millisecond)
			return out, err
		}
		l := holdfast.New(store, nil)
		_, err := l.Lock(t.Context(), "a", holdfast.Wait(time.Second))
		if err == nil || !strings.Contains(err.Error(), "answers too slowly") {
			t.Errorf("got %v, want that the store answers too slowly", err)
		}
		store.Change(func() { store.OnTry = nil })
		must.Drain(t, l)
	})
}
