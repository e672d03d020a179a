package holdfast

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/memhold"
)

// Faults that a review found, each with the sequence that showed it.

// The machine is suspended while the reply to the first Try is on its way.
func TestSuspendedDuringTheFirstTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		store := faulty.New()
		l := New(store, nil)
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		store.Change(func() {
			store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				out, err := store.Backend.Try(ctx, c)
				ahead.Store(int64(time.Hour)) // suspended here: the lease of 30 s is over in the store
				store.Drop(c.Name)
				return out, err
			}
		})
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		store.Change(func() { store.OnTry = nil })
		other, err := New(store, nil).TryLock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := lock.Err(); err == nil || !strings.Contains(err.Error(), "suspended") {
			t.Errorf("lock.Err() is %v although an hour went by on the wall clock", err)
		}
		<-lock.Context(t.Context()).Done()
		if d := time.Since(start); d != 0 {
			t.Errorf("two holders for %v", d)
		}
		if err := other.Unlock(); err != nil {
			t.Errorf("Unlock of the other: %v", err)
		}
		if err := lock.Unlock(); !errors.Is(err, ErrLost) {
			t.Errorf("Unlock: got %v, want ErrLost", err)
		}
	})
}

// The machine is suspended during a renewal.
func TestSuspendedDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		store := faulty.New()
		l := New(store, nil)
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		var at time.Time
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				if !at.IsZero() {
					return store.Backend.Renew(ctx, cs)
				}
				a, err := store.Backend.Renew(ctx, cs)
				ahead.Store(int64(time.Hour))
				store.Drop("job")
				at = time.Now()
				k, _ := l.Lock(context.Background(), "other", Lease(time.Second)) // wakes the scheduler
				time.Sleep(10 * time.Millisecond)
				_ = k.Unlock()
				return a, err
			}
		})
		<-lock.Context(t.Context()).Done()
		t.Logf("noticed %v after the machine woke up (renew.TickMost is %v)", time.Since(at), renew.TickMost)
		if time.Since(at) > 2*renew.TickMost {
			t.Error("too late")
		}
		_ = lock.Unlock()
	})
}

// A lock is lost, and its holder unlocks it before the next goroutine may ask. The next
// goroutine waited without end.
func TestUnlockBetweenALossAndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(memhold.New(), nil)
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		next := make(chan error)
		go func() {
			lock, err := l.Lock(ctx, "job")
			if err == nil {
				err = lock.Unlock()
			}
			next <- err
		}()
		synctest.Wait()
		lease := lock.hold.lease
		_, _, _ = lease.end(nil, onLoss, &LostError{Name: "job", Reason: driver.ReasonExpired}) // its contexts end, too
		if err := lock.Unlock(); !errors.Is(err, ErrLost) {
			t.Errorf("Unlock: got %v, want ErrLost", err)
		}
		lease.abandon(driver.ReasonExpired)
		if err := <-next; err != nil {
			t.Error(err)
		}
	})
}

// With two Lockers in each of two processes, LockAll deadlocked in half of the runs.
func TestLockAllOverSeveralStores(t *testing.T) {
	bad := 0
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			a, b := memhold.New(), memhold.New()
			p1a, p1b := New(a, nil), New(b, nil)
			p2a, p2b := New(a, nil), New(b, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			done := make(chan error, 2)
			for _, ms := range [][]*Mutex{{p1a.Mutex("x"), p1b.Mutex("y")}, {p2a.Mutex("x"), p2b.Mutex("y")}} {
				go func() {
					for range 50 {
						ks, err := LockAll(ctx, ms)
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

// An Unlock of a lost lock waited for another goroutine of the call tree.
func TestUnlockOfALostLockWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l, other := New(store, nil), New(store, nil)
		ctx := WithOwner(t.Context())
		lock, _ := l.Lock(ctx, "job")
		records, _ := store.Get(ctx, "job")
		if err := store.ForceUnlock(ctx, "job", records[0].Holds[0].Holder, "x"); err != nil {
			t.Fatal(err)
		}
		o, err := other.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		<-lock.Context(t.Context()).Done() // lost, and known
		go func() {
			if k, err := l.Lock(ctx, "job"); err == nil {
				_ = k.Unlock()
			}
		}()
		synctest.Wait()
		start := time.Now()
		err = lock.Unlock()
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("Unlock of a lost lock took %v: %v", d, err)
		}
		_ = o.Unlock()
		synctest.Wait()
	})
}

// A re-entry was confirmed after the deadline.
func TestReentryIsNeverALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := New(store, nil)
		ctx := WithOwner(t.Context())
		lock, _ := l.Lock(ctx, "job", Lease(10*time.Second))
		time.Sleep(8900 * time.Millisecond)
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				time.Sleep(200 * time.Millisecond)
				return store.Backend.Renew(ctx, cs)
			}
		})
		again, err := l.Lock(ctx, "job")
		if err == nil && again.Err() != nil {
			t.Errorf("Lock returned nil error and a lock that is %v", again.Err())
		}
		_ = lock.Unlock()
	})
}

func TestLoweredCountIsRecordedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := New(store, nil)
		ctx := WithOwner(t.Context())
		lock, _ := l.Lock(ctx, "job")
		_, _ = l.Lock(ctx, "job")
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		store.Change(func() { store.OnRenew = nil })
		time.Sleep(15 * time.Second)
		records, _ := store.Get(ctx, "job")
		if records[0].Holds[0].Holds != 1 {
			t.Errorf("count in the store: %d, want 1", records[0].Holds[0].Holds)
		}
		_ = lock.Unlock()
	})
}

func TestReentryHonoursWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := New(store, nil)
		ctx := WithOwner(t.Context())
		lock, _ := l.Lock(ctx, "job")
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				return nil, driver.ErrNotExecuted
			}
		})
		start := time.Now()
		_, err := l.TryLock(ctx, "job", Wait(100*time.Millisecond))
		if d := time.Since(start); d > time.Second {
			t.Errorf("TryLock(Wait(100ms)) took %v: %v", d, err)
		}
		_ = lock.Unlock()
	})
}

func TestDoReturnsTheErrorItself(t *testing.T) {
	l := New(memhold.New(), nil)
	mine := errors.New("mine")
	_, err := Do(t.Context(), l, "job", func(context.Context, *Lock) (int, error) { return 0, mine })
	if err != mine {
		t.Errorf("got %T, want fn's own error", err)
	}
}

type countedWaiter struct {
	driver.Waiter
	open *atomic.Int64
}

func (w *countedWaiter) Close() { w.open.Add(-1); w.Waiter.Close() }

type waiterStore struct {
	*memhold.Backend
	open atomic.Int64
}

func (f *waiterStore) Waiter(c driver.Claim) driver.Waiter {
	f.open.Add(1)
	return &countedWaiter{f.Backend.Waiter(c), &f.open}
}

func TestNoWaiterOutlivesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &waiterStore{Backend: memhold.New()}
		l, other := New(store, nil), New(store.Backend, nil)
		o, _ := other.Lock(t.Context(), "job")
		got := make(chan *Lock)
		go func() { k, _ := l.Lock(t.Context(), "job"); got <- k }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = l.Lock(ctx, "job") }()
		synctest.Wait()
		_ = o.Unlock()
		k := <-got
		cancel()
		synctest.Wait()
		time.Sleep(time.Hour)
		if n := store.open.Load(); n != 0 {
			t.Errorf("%d Waiters open an hour after the last waiter left", n)
		}
		_ = k.Unlock()
	})
}

func TestPanickingTryLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := New(store, nil)
		store.Change(func() {
			store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) { panic("boom") }
		})
		func() {
			defer func() { _ = recover() }()
			_, _ = l.Lock(t.Context(), "job")
		}()
		store.Change(func() { store.OnTry = nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if k, err := l.Lock(ctx, "job"); err != nil {
			t.Errorf("after a recovered panic: %v", err)
		} else {
			_ = k.Unlock()
		}
	})
}

// slow is a store with a round trip of rtt. A call arrives after half of it, also if the
// caller has given up.
type slow struct {
	*memhold.Backend
	rtt      time.Duration
	releases int
}

func trip[T any](ctx context.Context, rtt time.Duration, fn func() (T, error)) (T, error) {
	type ans struct {
		v   T
		err error
	}
	ch := make(chan ans, 1)
	go func() {
		time.Sleep(rtt / 2)
		v, err := fn()
		time.Sleep(rtt / 2)
		ch <- ans{v, err}
	}()
	select {
	case a := <-ch:
		return a.v, a.err
	case <-ctx.Done():
		var z T
		return z, ctx.Err()
	}
}

func (s *slow) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	return trip(ctx, s.rtt, func() (driver.Outcome, error) { return s.Backend.Try(context.Background(), c) })
}

func (s *slow) Renew(ctx context.Context, c []driver.Claim) ([]driver.Renewal, error) {
	return trip(ctx, s.rtt, func() ([]driver.Renewal, error) { return s.Backend.Renew(context.Background(), c) })
}

func (s *slow) Release(ctx context.Context, c driver.Claim) error {
	s.releases++
	_, err := trip(ctx, s.rtt, func() (int, error) { return 0, s.Backend.Release(context.Background(), c) })
	return err
}

func (s *slow) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	return func() (int, error) { return -1, s.Release(ctx, c) }
}

func TestUnlockOfASlowStore(t *testing.T) {
	for _, c := range []struct{ ttl, rtt time.Duration }{{30 * time.Second, 600 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{Backend: memhold.New(), rtt: c.rtt}
			l := New(s, &Options{TTL: c.ttl})
			k, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * c.ttl)
			if err := k.Err(); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err = k.Unlock()
			d := time.Since(start)
			_ = l.Drain(t.Context())
			defer time.Sleep(time.Hour)
			if err != nil {
				t.Errorf("TTL %v, round trip %v: Unlock after %v: %v; Drain %v, %d releases sent", c.ttl, c.rtt, d, err, time.Since(start), s.releases)
			}
		})
	}
}

// rw is a store with one name: a read-write lock and a semaphore.
type rw struct {
	mu      sync.Mutex
	writer  string
	readers map[string]bool
	token   uint64
	change  chan struct{}
	gate    chan struct{}
	seen    map[string]bool
}

func newRW() *rw { return &rw{readers: map[string]bool{}, change: make(chan struct{})} }

func (b *rw) Info() driver.Info {
	return driver.Info{Name: "rw", Caps: driver.Caps{Shared: true, Permits: true, Fencing: true}}
}

func (b *rw) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	b.mu.Lock()
	gate := b.gate
	if gate != nil && b.seen[c.Owner] {
		gate = nil
	} else if gate != nil {
		b.seen[c.Owner] = true
	}
	b.mu.Unlock()
	if gate != nil {
		<-gate
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.token++
	var ok bool
	switch c.Mode {
	case driver.Shared:
		ok = b.writer == "" || b.writer == c.Beside
	case driver.Permit:
		ok = b.readers[c.Owner] || len(b.readers) < c.Permits
	default:
		ok = b.writer == c.Owner || b.writer == "" && len(b.readers) == 0
	}
	if !ok {
		return driver.Outcome{Ahead: b.change}, nil
	}
	if c.Mode == driver.Exclusive {
		b.writer = c.Owner
	} else {
		b.readers[c.Owner] = true
	}
	return driver.Outcome{Granted: true, Token: b.token, ValidFor: c.TTL}, nil
}

func (b *rw) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	rs := make([]driver.Renewal, len(cs))
	for i, c := range cs {
		rs[i].ValidFor = c.TTL
	}
	return rs, nil
}

func (b *rw) Release(ctx context.Context, c driver.Claim) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writer == c.Owner {
		b.writer = ""
	} else if b.readers[c.Owner] {
		delete(b.readers, c.Owner)
	} else {
		return driver.ErrGone
	}
	close(b.change)
	b.change = make(chan struct{})
	return nil
}
func (b *rw) Waiter(driver.Claim) driver.Waiter { return rwW{} }

type rwW struct{}

func (rwW) Wait(ctx context.Context, o driver.Outcome) (driver.Outcome, error) {
	select {
	case <-o.Ahead.(chan struct{}):
		return driver.Outcome{}, nil
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
}
func (rwW) Close() {}

// A waiter that gave up in the queue of a semaphore made all others leave the queue.
func TestGivingUpDisturbsNobodyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRW()
		l := New(store, nil)
		s := l.Semaphore("sem", 1)
		held, err := s.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		results := make(chan error, 10)
		wait := func(ctx context.Context) {
			go func() {
				k, err := s.Acquire(ctx)
				if err == nil {
					err = k.Unlock()
				}
				results <- err
			}()
		}
		// All five make their first Try at the same time: none finds a queue.
		short, cancel2 := context.WithTimeout(t.Context(), time.Second)
		defer cancel2()
		store.mu.Lock()
		store.gate, store.seen = make(chan struct{}), map[string]bool{}
		store.mu.Unlock()
		for _, ctx := range []context.Context{long, short, long, long, long} {
			wait(ctx) // all make their first try before any of them has an answer
			synctest.Wait()
		}
		for range 5 {
			store.gate <- struct{}{}
			synctest.Wait()
		}
		synctest.Wait()
		time.Sleep(2 * time.Second) // the short one gives up
		_ = held.Unlock()
		start := time.Now()
		for range 5 {
			err := <-results
			t.Logf("after %v: %v", time.Since(start), err)
			if time.Since(start) > time.Minute && errors.Is(err, context.DeadlineExceeded) {
				t.Error("never woken although the permit is free")
			}
		}
		time.Sleep(time.Hour)
	})
}

// The claim of the writer's own read side waited in the queue behind readers that waited
// for that writer.
func TestDowngradeDoesNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(newRW(), nil)
		m := l.RWMutex("doc")
		tree := WithOwner(t.Context())
		w, err := m.Write.Lock(tree)
		if err != nil {
			t.Fatal(err)
		}
		go func() { k, _ := m.Read.Lock(t.Context()); _ = k.Unlock() }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(tree, time.Hour)
		defer cancel()
		r, err := m.Read.Lock(ctx)
		if err != nil {
			t.Errorf("downgrade: %v", err)
		}
		_ = r.Unlock()
		_ = w.Unlock()
		time.Sleep(time.Minute)
	})
}
