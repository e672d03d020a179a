package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
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

func take(t *testing.T, m *holdfast.Mutex, opts ...holdfast.Option) *holdfast.Lock {
	t.Helper()
	lock, err := m.Lock(t.Context(), opts...)
	if err != nil {
		t.Fatalf("Lock(%q): %v", m.Name(), err)
	}
	return lock
}

func mustBeBusy(t *testing.T, m *holdfast.Mutex) {
	t.Helper()
	if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrBusy) {
		t.Fatalf("TryLock(%q): got %v, want ErrBusy", m.Name(), err)
	}
}

// The core never asks a store for a feature that it does not declare.
func TestUnsupportedKinds(t *testing.T) {
	l := holdfast.New(plainStore{memhold.New()}, nil)
	for name, lock := range map[string]func() error{
		"fair":      func() error { _, err := l.FairMutex("a").Lock(t.Context()); return err },
		"read":      func() error { _, err := l.RWMutex("a").Read.Lock(t.Context()); return err },
		"write":     func() error { _, err := l.RWMutex("a").Write.TryLock(t.Context()); return err },
		"semaphore": func() error { _, err := l.Semaphore("a", 1).Acquire(t.Context()); return err },
		"resize":    func() error { return l.Semaphore("a", 1).Resize(t.Context(), 2) },
		"latch":     func() error { _, err := l.CountDownLatch("a").TrySet(t.Context(), 1); return err },
	} {
		if err := lock(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: got %v, want errors.ErrUnsupported", name, err)
		}
	}
	must.Unlock(t, must.Lock(t, l, "a"))
}

// plainStore is a store that is a plain mutex and nothing else.
type plainStore struct{ driver.Backend }

func (plainStore) Info() driver.Info { return driver.Info{Name: "plain"} }

func TestReadersOverlapAndExcludeWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		var readers, writers []*holdfast.Mutex
		for range 3 {
			rw := holdfast.New(store, nil).RWMutex("page")
			readers, writers = append(readers, rw.Read, rw.Read), append(writers, rw.Write)
		}
		var held []*holdfast.Lock
		for _, r := range readers {
			held = append(held, take(t, r))
		}
		mustBeBusy(t, writers[0])
		got := make(chan *holdfast.Lock)
		go func() { got <- take(t, writers[1]) }()
		synctest.Wait()
		for _, k := range held {
			must.Unlock(t, k)
		}
		w := <-got
		mustBeBusy(t, writers[0])
		mustBeBusy(t, readers[0])
		// All readers of all processes get the lock when the writer releases it.
		var wg sync.WaitGroup
		start := time.Now()
		for _, r := range readers {
			wg.Go(func() {
				k := take(t, r)
				between(t, "a reader waited", time.Since(start), time.Second, time.Second)
				time.Sleep(time.Second)
				must.Unlock(t, k)
			})
		}
		time.Sleep(time.Second)
		must.Unlock(t, w)
		wg.Wait()
		between(t, "the readers together", time.Since(start), 2*time.Second, 2*time.Second)
		mustBeFree(t, store, "page")
	})
}

func TestDowngradeAndUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l, other := holdfast.New(store, nil), holdfast.New(store, nil)
		rw := l.RWMutex("page")
		ctx := holdfast.WithOwner(t.Context())

		w, err := rw.Write.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r, err := rw.Read.Lock(w.Context(ctx))
		if err != nil {
			t.Fatalf("a writer that wants to read: %v", err)
		}
		mustBeBusy(t, other.RWMutex("page").Read)
		must.Unlock(t, w)
		if err := r.Err(); err != nil {
			t.Fatalf("after the downgrade: %v", err)
		}
		must.Unlock(t, take(t, other.RWMutex("page").Read))
		mustBeBusy(t, other.RWMutex("page").Write)

		start := time.Now()
		if _, err := rw.Write.Lock(ctx); !errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("upgrade: got %v, want ErrDeadlock", err)
		}
		if _, err := rw.Write.Lock(r.Context(t.Context())); !errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("upgrade without an owner: got %v, want ErrDeadlock", err)
		}
		between(t, "to the answer", time.Since(start), 0, 0)

		again, err := rw.Read.Lock(ctx)
		if err != nil || again != r {
			t.Errorf("re-entry: got %v, %v", again, err)
		}
		must.Unlock(t, again)
		must.Unlock(t, r)
		w, err = rw.Write.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		must.Unlock(t, w)
		mustBeFree(t, store, "page")
	})
}

func TestDeadReaderLetsTheWriterIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		dead := holdfast.New(store, &holdfast.Options{TTL: ttl})
		live := holdfast.New(store.Backend, &holdfast.Options{TTL: ttl})
		k := take(t, dead.RWMutex("page").Read)
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
		})
		other := take(t, live.RWMutex("page").Read)
		start := time.Now()
		time.AfterFunc(time.Second, func() { must.Unlock(t, other) })
		w := take(t, live.RWMutex("page").Write)
		between(t, "the writer waited", time.Since(start), ttl/2, ttl+100*time.Millisecond)
		if !errors.Is(k.Err(), holdfast.ErrLost) {
			t.Errorf("the dead reader: got %v, want ErrLost", k.Err())
		}
		_ = k.Unlock()
		must.Unlock(t, w)
	})
}

func TestFairOverProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		lockers := []*holdfast.Locker{holdfast.New(store, nil), holdfast.New(store, nil), holdfast.New(store, nil)}
		first := take(t, lockers[0].FairMutex("job"))
		var order, want []int
		var wg sync.WaitGroup
		for i := range 60 {
			ctx, cancel := context.WithCancel(t.Context())
			gives := i%7 == 3
			if !gives {
				want = append(want, i)
			}
			wg.Go(func() {
				defer cancel()
				k, err := lockers[i%3].FairMutex("job").Lock(ctx)
				if gives {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("waiter %d: got %v, want its context's error", i, err)
					}
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				time.Sleep(rand.N(3 * time.Second))
				must.Unlock(t, k)
			})
			time.Sleep(10 * time.Millisecond)
			if gives {
				time.AfterFunc(time.Second, cancel)
			}
		}
		mustBeBusy(t, lockers[1].FairMutex("job"))
		time.Sleep(2 * time.Second)
		must.Unlock(t, first)
		wg.Wait()
		if fmt.Sprint(order) != fmt.Sprint(want) {
			t.Errorf("order of grants %v, want %v", order, want)
		}
		for _, l := range lockers {
			if err := l.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}
		must.Unlock(t, take(t, lockers[2].FairMutex("job"), holdfast.Wait(time.Second)))
		mustBeFree(t, store, "job")
	})
}

func TestSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		const permits = 3
		var mu sync.Mutex
		held, most := 0, 0
		var wg sync.WaitGroup
		for i := range 30 {
			if i%10 == 0 {
				wg.Go(func() {}) // a process of ten
			}
			l := holdfast.New(store, nil)
			wg.Go(func() {
				for range 10 {
					k, err := l.Semaphore("pool", permits).Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					held++
					most = max(most, held)
					mu.Unlock()
					time.Sleep(rand.N(time.Second))
					mu.Lock()
					held--
					mu.Unlock()
					must.Unlock(t, k)
				}
			})
		}
		wg.Wait()
		if most != permits {
			t.Errorf("at most %d held a permit at a time, want exactly %d", most, permits)
		}

		s := holdfast.New(store, &holdfast.Options{TTL: ttl}).Semaphore("pool", permits)
		total, free, err := s.Permits(t.Context())
		if err != nil || total != permits || free != permits {
			t.Errorf("Permits: got %d, %d, %v; want all free", total, free, err)
		}
		var ks []*holdfast.Lock
		ctx := holdfast.WithOwner(t.Context()) // makes no difference
		for range permits {
			k, err := s.TryAcquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			ks = append(ks, k)
		}
		if _, err := s.TryAcquire(ctx); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("one too many: got %v, want ErrBusy", err)
		}
		got := make(chan *holdfast.Lock)
		go func() {
			k, err := s.Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- k
		}()
		time.Sleep(3 * ttl) // they are renewed
		if err := s.Resize(t.Context(), permits+1); err != nil {
			t.Fatal(err)
		}
		must.Unlock(t, <-got)
		for _, k := range ks {
			must.Unlock(t, k)
		}
		if err := s.Resize(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "0 permits make no semaphore") {
			t.Errorf("Resize to 0: got %v, want that it says so", err)
		}
		if _, err := holdfast.New(store, nil).Semaphore("pool", 0).Acquire(t.Context()); err == nil || !strings.Contains(err.Error(), "0 permits make no semaphore") {
			t.Errorf("a semaphore of no permits: got %v, want that it says so", err)
		}
		const limit, tooMany = 1<<31 - 1, "2147483648 permits are too many: a semaphore has at most 2147483647"
		if err := s.Resize(t.Context(), limit+1); err == nil || !strings.Contains(err.Error(), tooMany) {
			t.Errorf("Resize above the limit: got %v, want that it says so", err)
		}
		if _, err := holdfast.New(store, nil).Semaphore("most", limit+1).Acquire(t.Context()); err == nil || !strings.Contains(err.Error(), tooMany) {
			t.Errorf("a semaphore above the limit: got %v, want that it says so", err)
		}
		lock, err := holdfast.New(store, nil).Semaphore("most", limit).Acquire(t.Context())
		if err != nil {
			t.Fatalf("a semaphore at the limit: got %v", err)
		}
		must.Unlock(t, lock)
	})
}

// If a semaphore has another number of permits than its description, each acquire has it in
// its event, and the log once.
func TestSemaphoreOfAnotherSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var said []int
		l := holdfast.New(memhold.New(), &holdfast.Options{
			Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			Observe: func(_ context.Context, e holdfast.Event) {
				if e.Type == holdfast.EventAcquire {
					said = append(said, e.Permits)
				}
			},
		})
		for _, permits := range []int{2, 3, 3, 2} {
			k, err := l.Semaphore("pool", permits).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			must.Unlock(t, k)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []int{0, 2, 2, 0}; !slices.Equal(said, want) {
			t.Errorf("events: got %v permits, want %v", said, want)
		}
		if got := strings.Count(logged.String(), "permits=2 described=3"); got != 1 {
			t.Errorf("got %d warnings, want 1: %s", got, logged.String())
		}
	})
}

func TestCountDownLatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		a, b := holdfast.New(store, nil).CountDownLatch("ready"), holdfast.New(store, nil).CountDownLatch("ready")
		if err := a.Wait(t.Context()); err != nil {
			t.Errorf("a latch that was never set is open: %v", err)
		}
		if set, err := a.TrySet(t.Context(), 3); err != nil || !set {
			t.Fatalf("Set: %t, %v", set, err)
		}
		if set, err := b.TrySet(t.Context(), 5); err != nil || set {
			t.Errorf("Set of a counting latch: %t, %v; want false", set, err)
		}
		if _, err := a.TrySet(t.Context(), 0); err == nil {
			t.Error("Set to 0 was accepted")
		}
		opened := make(chan error)
		go func() { opened <- b.Wait(t.Context()) }()
		for n := int64(3); n > 0; n-- {
			if got, err := b.Count(t.Context()); err != nil || got != n {
				t.Errorf("Count: got %d, %v; want %d", got, err, n)
			}
			time.Sleep(5 * time.Second)
			if err := a.CountDown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if err := <-opened; err != nil {
			t.Error(err)
		}
		between(t, "the waiter went on", time.Since(start), 0, 0)
		if err := a.CountDown(t.Context()); err != nil {
			t.Errorf("Done of an open latch: %v", err)
		}
		if set, err := b.TrySet(t.Context(), 1); err != nil || !set {
			t.Errorf("Set of an open latch: %t, %v; want true", set, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait with a deadline: got %v", err)
		}
	})
}

// A name has one kind.
func TestKindsDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), nil)
		k := must.Lock(t, l, "name")
		if _, err := l.RWMutex("name").Write.TryLock(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("write lock on a mutex: got %v, want ErrMismatch", err)
		}
		if _, err := l.Semaphore("name", 2).TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("permit of a mutex: got %v, want ErrMismatch", err)
		}
		must.Unlock(t, k)
		r := take(t, l.RWMutex("name").Read)
		if _, err := l.TryLock(t.Context(), "name"); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("mutex on a read lock: got %v, want ErrMismatch", err)
		}
		must.Unlock(t, r)
	})
}

// If no name is held, LockAll sends one call.
func TestLockAllInOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Backend: memhold.New()}
		l, other := holdfast.New(store, nil), holdfast.New(store.Backend, nil)
		var ms []*holdfast.Mutex
		for i := range 100 {
			ms = append(ms, l.Mutex(fmt.Sprintf("name:%d", i)))
		}
		rand.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
		locks, err := holdfast.LockAll(t.Context(), ms)
		if err != nil || len(locks) != 100 || locks.Err() != nil {
			t.Fatalf("got %d locks, %v, %v", len(locks), err, locks.Err())
		}
		if store.batches != 1 || store.singles != 0 {
			t.Errorf("asked %d times for all and %d times for one, want once for all", store.batches, store.singles)
		}
		must.UnlockAll(t, locks)

		held := must.Lock(t, other, "name:50")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := holdfast.LockAll(ctx, ms); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one is held: got %v, want the context's error", err)
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if m.Name() != "name:50" {
				mustBeFree(t, store.Backend, m.Name())
			}
		}
		time.AfterFunc(3*time.Second, func() { must.Unlock(t, held) })
		locks, err = holdfast.LockAll(t.Context(), ms)
		if err != nil || len(locks) != 100 {
			t.Fatalf("got %d locks, %v", len(locks), err)
		}
		must.UnlockAll(t, locks)
		for _, m := range ms {
			mustBeFree(t, store.Backend, m.Name())
		}
	})
}

// counting counts the calls of a store.
type counting struct {
	*memhold.Backend
	singles, batches int
}

func (c *counting) Try(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
	c.singles++
	return c.Backend.Try(ctx, claim)
}

func (c *counting) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	c.batches++
	return c.Backend.TryAll(ctx, cs)
}

// LockAll of different kinds takes one round trip, too.
func TestLockAllOfSeveralKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Backend: memhold.New()}
		l, other := holdfast.New(store, nil), holdfast.New(store.Backend, nil)
		ms := []*holdfast.Mutex{l.FairMutex("d"), l.RWMutex("c").Read, l.RWMutex("b").Write, l.Mutex("a")}
		locks, err := holdfast.LockAll(t.Context(), ms)
		if err != nil || len(locks) != len(ms) {
			t.Fatalf("got %d locks, %v", len(locks), err)
		}
		if store.batches != 1 || store.singles != 0 {
			t.Errorf("asked %d times for all and %d times for one, want once for all", store.batches, store.singles)
		}
		must.Unlock(t, take(t, other.RWMutex("c").Read))
		mustBeBusy(t, other.FairMutex("d"))
		must.UnlockAll(t, locks)

		held := take(t, other.RWMutex("b").Write)
		time.AfterFunc(time.Minute, func() { must.Unlock(t, held) })
		start := time.Now()
		locks, err = holdfast.LockAll(t.Context(), ms)
		if err != nil {
			t.Fatal(err)
		}
		between(t, "waited for the one that was held", time.Since(start), time.Minute, time.Minute+2*time.Second)
		must.UnlockAll(t, locks)
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			mustBeFree(t, store.Backend, name)
		}
	})
}
