package holdfast

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/memhold"
)

// less is a store that grants leases of most at most, as ZooKeeper does. If left is set,
// its first grant lasts for left: the rest of a session.
func less(most, left time.Duration) *faulty.Store {
	s := faulty.New()
	s.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
		c.TTL = min(c.TTL, most)
		out, err := s.Backend.Try(ctx, c)
		if left > 0 && out.Granted {
			out.ValidFor = left
		}
		return out, err
	}
	s.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
		short := make([]driver.Claim, len(cs))
		for i, c := range cs {
			c.TTL = min(c.TTL, most)
			short[i] = c
		}
		return s.Backend.Renew(ctx, short)
	}
	return s
}

// A store may grant less than the TTL. Its locks are held, are passed from one goroutine to
// the next, and one line of the log reports it.
func TestGrantedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := less(27*time.Second, 0)
		l := New(store, &Options{TTL: 5 * time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		first, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := first.Remaining(), 27*time.Second*9/10; got != want {
			t.Errorf("remaining %v, want %v", got, want)
		}
		next := make(chan *Lock)
		for range 2 { // the first one asks the store, and its hold is passed on to the other
			go func() {
				lock, _ := l.Lock(t.Context(), "a")
				next <- lock
			}()
			synctest.Wait()
		}
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := (<-next).Unlock(); err != nil {
			t.Fatal(err)
		}
		second := <-next
		if n := store.Tries.Load(); second == nil || n != 2 {
			t.Fatalf("got %v after %d tries, want that it was passed on", second, n)
		}
		third, err := l.Lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		for _, lock := range []*Lock{second, third} {
			if err := lock.Err(); err != nil {
				t.Errorf("lost: %v", err)
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Count(log.String(), "the store grants a shorter lease"); got != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("got the log\n%swant one line", &log)
		}
	})
}

// A lease of two thirds of the TTL is what sessions promise, and is not logged.
func TestGrantedAsSessionsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := New(less(20*time.Second, 0), &Options{TTL: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := lock.Unlock(); err != nil || log.Len() > 0 {
			t.Errorf("got error %v and the log %q", err, &log)
		}
	})
}

// If the user has chosen a margin that leaves no time to renew what the store grants, Lock
// returns an error at once, and leaves nothing in the store.
func TestMarginDoesNotFitTheGrant(t *testing.T) {
	for name, opts := range map[string][]Option{"renewed": nil, "with a fixed end": {FixedLease(time.Minute)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := less(27*time.Second, 0)
				l := New(store, &Options{TTL: 5 * time.Minute, Margin: 20 * time.Second})
				began := time.Now()
				lock, err := l.Lock(t.Context(), "a", opts...)
				if len(opts) > 0 { // its margin is a tenth of it
					if err != nil {
						t.Fatal(err)
					}
					_ = lock.Unlock()
					return
				}
				if err == nil || !strings.Contains(err.Error(), "margin of 20s") || !strings.Contains(err.Error(), "27s") {
					t.Fatalf("got error %v, want one that names the margin and the lease", err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("the error came after %v", took)
				}
				if err := l.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if out, err := store.Backend.Try(t.Context(), driver.Claim{Name: "a", Owner: "x:1", Client: "x", Seq: 1, TTL: time.Second, Count: 1, Tokens: 1}); err != nil || !out.Granted {
					t.Errorf("another got %+v, %v, want that it is free", out, err)
				}
			})
		})
	}
}

// A store with sessions may grant the rest of one. A renewal finds out how much it grants,
// and a margin that fits that is no error.
func TestMarginFitsTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := less(20*time.Second, 10*time.Second)
		l := New(store, &Options{TTL: 30 * time.Second, Margin: 9 * time.Second})
		began := time.Now()
		lock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if took, left := time.Since(began), lock.Remaining(); took > 0 || left != 11*time.Second {
			t.Errorf("got it after %v for %v, want 11s at once", took, left)
		}
		time.Sleep(time.Minute)
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// If the lease of a grant is too short for the margin, a renewal asks for a longer one. Whatever
// comes of that renewal, the claim is a lock with a margin, or nothing stays of it.
func TestRenewalForTheMarginFails(t *testing.T) {
	const long = 30 * time.Second
	start := func(onRenew func(store *faulty.Store, ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error)) (*faulty.Store, *Locker) {
		store := faulty.New()
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			out, err := store.Backend.Try(ctx, c)
			out.ValidFor = min(out.ValidFor, 12*time.Second)
			return out, err
		}
		store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			return onRenew(store, ctx, cs)
		}
		return store, New(store, &Options{TTL: long, Margin: 9 * time.Second})
	}
	mustBeFree := func(t *testing.T, store *faulty.Store, l *Locker) {
		t.Helper()
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		other, err := New(store.Backend, nil).TryLock(t.Context(), "a")
		if err != nil {
			t.Fatalf("another got %v, want that nothing stays of the claim", err)
		}
		_ = other.Unlock()
	}
	t.Run("the claim is gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			renewals := 0
			_, l := start(func(store *faulty.Store, ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				if renewals++; renewals == 1 {
					store.Drop("a")
				}
				return store.Backend.Renew(ctx, cs)
			})
			lock, err := l.Lock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if left := lock.Remaining(); left != long-9*time.Second || renewals != 2 {
				t.Errorf("got a lock with %v left after %d renewals, want that of a second claim", left, renewals)
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("no answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, l := start(func(_ *faulty.Store, ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) {
				return nil, faulty.Hang(ctx)
			})
			began := time.Now()
			_, err := l.Lock(t.Context(), "a", Wait(100*time.Millisecond))
			if took := time.Since(began); err == nil || took > 100*time.Millisecond+removalWait {
				t.Errorf("got %v after %v, want an error at the end of Wait", err, took)
			}
			mustBeFree(t, store, l)
		})
	})
	t.Run("panic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, l := start(func(*faulty.Store, context.Context, []driver.Claim) ([]driver.Renewal, error) {
				panic("a bug of the store")
			})
			func() {
				defer func() { _ = recover() }()
				_, err := l.Lock(t.Context(), "a")
				t.Errorf("got %v, want the panic of the store", err)
			}()
			mustBeFree(t, store, l)
		})
	})
}

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

// far is a store with a long round trip. It counts the tries, and how many there are at once.
type far struct {
	slow
	session            time.Duration // Info.SessionTTL
	tries, now, atOnce atomic.Int64
}

func newFar() *far { return &far{slow: slow{Backend: memhold.New(), rtt: 10 * time.Millisecond}} }

func (f *far) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	f.tries.Add(1)
	for now := f.now.Add(1); ; {
		if most := f.atOnce.Load(); now <= most || f.atOnce.CompareAndSwap(most, now) {
			break
		}
	}
	defer f.now.Add(-1)
	return f.slow.Try(ctx, c)
}

func (f *far) Info() driver.Info {
	info := f.slow.Info()
	info.SessionTTL = f.session
	return info
}

func (f *far) Release(ctx context.Context, c driver.Claim) error {
	_, err := trip(ctx, f.rtt, func() (int, error) { return 0, f.Backend.Release(context.Background(), c) })
	return err
}

// crowdOf starts n goroutines that wait, and returns when all have their places.
func crowdOf(n int, one func()) *sync.WaitGroup {
	var wg sync.WaitGroup
	for range n {
		wg.Go(one)
	}
	time.Sleep(5 * time.Second)
	return &wg
}

// Claims that can be held together do not wait for each other: what admits one of them
// admits the others. That takes a few round trips in all, and not one for each.
func TestSharedClaimsAreAdmittedTogether(t *testing.T) {
	const n = 1000
	for name, tt := range map[string]struct {
		trips int   // until all hold, from the release on
		tries int64 // to the store in that time
		first func(*Locker) []*Lock
		one   func(*Locker) (*Lock, error)
	}{
		"readers": {
			trips: 4, tries: n + 10,
			first: func(l *Locker) []*Lock {
				k, _ := l.RWMutex("job").Write.Lock(context.Background())
				return []*Lock{k}
			},
			one: func(l *Locker) (*Lock, error) { return l.RWMutex("job").Read.Lock(context.Background()) },
		},
		"permits": {
			trips: 12, tries: n + 10,
			first: func(l *Locker) (held []*Lock) {
				for range n {
					k, _ := l.Semaphore("job", n).Acquire(context.Background())
					held = append(held, k)
				}
				return held
			},
			one: func(l *Locker) (*Lock, error) { return l.Semaphore("job", n).Acquire(context.Background()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFar()
				l, other := New(store, nil), New(store.Backend, nil)
				held := tt.first(other)
				end := make(chan struct{})
				got := make(chan *Lock, n)
				wg := crowdOf(n, func() {
					k, err := tt.one(l)
					if err != nil {
						t.Error(err)
						return
					}
					got <- k
					<-end
					_ = k.Unlock()
				})
				before, start := store.tries.Load(), time.Now()
				for _, k := range held {
					_ = k.Unlock()
				}
				for range n {
					<-got
				}
				took, tries := time.Since(start), store.tries.Load()-before
				t.Logf("%v, %d tries", took, tries)
				if most := time.Duration(tt.trips) * store.rtt; took > most {
					t.Errorf("all hold after %v, want at most %v: %d trips", took, most, tt.trips)
				}
				if tries > tt.tries {
					t.Errorf("the store was asked %d times, want at most %d", tries, tt.tries)
				}
				close(end)
				wg.Wait()
				if n := queuesOf(l); n != 0 {
					t.Errorf("%d queues are left", n)
				}
			})
		})
	}
}

// If a crowd comes at a busy name, only a part of it asks the store, and later only one goroutine.
func TestCrowdAtABusyNameAsksLittle(t *testing.T) {
	type acquire = func(context.Context) (*Lock, error)
	for name, kind := range map[string]func(l, other *Locker) (one, first acquire){
		"readers": func(l, other *Locker) (one, first acquire) {
			return func(ctx context.Context) (*Lock, error) { return l.RWMutex("job").Read.Lock(ctx) },
				func(ctx context.Context) (*Lock, error) { return other.RWMutex("job").Write.Lock(ctx) }
		},
		"permits": func(l, other *Locker) (one, first acquire) {
			return func(ctx context.Context) (*Lock, error) { return l.Semaphore("job", 1).Acquire(ctx) },
				func(ctx context.Context) (*Lock, error) { return other.Semaphore("job", 1).Acquire(ctx) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n, seconds = 1000, 5 // crowdOf waits so long
				store := newFar()
				l := New(store, nil)
				one, first := kind(l, New(store.Backend, nil))
				held, _ := first(t.Context())
				ctx, cancel := context.WithCancel(t.Context())
				wg := crowdOf(n, func() {
					if _, err := one(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
				})
				if got := store.tries.Load(); got > sharedFirst+2*seconds {
					t.Errorf("a crowd of %d asked the store %d times, want %d times at first, and then about once a second", n, got, sharedFirst)
				}
				cancel()
				wg.Wait()
				_ = held.Unlock()
				if n := queuesOf(l); n != 0 {
					t.Errorf("%d queues are left", n)
				}
			})
		})
	}
}

// A caller that does not wait asks the store although a crowd asks, unless this process knows
// that the name is busy.
func TestTryLockBesideACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFar()
		l, other := New(store, nil), New(store.Backend, nil)
		read := l.RWMutex("job").Read
		crowd := func(ctx context.Context) *sync.WaitGroup {
			var wg sync.WaitGroup
			for range 2 * sharedFirst {
				wg.Go(func() {
					if k, err := read.Lock(ctx); err == nil {
						_ = k.Unlock()
					}
				})
			}
			synctest.Wait()
			return &wg
		}
		wg := crowd(t.Context())
		k, err := read.TryLock(t.Context())
		if err != nil {
			t.Fatalf("no writer holds the name: got %v", err)
		}
		_ = k.Unlock()
		wg.Wait()

		held, _ := other.RWMutex("job").Write.Lock(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		wg = crowd(ctx)
		time.Sleep(2 * store.rtt)
		before := store.tries.Load()
		if _, err := read.TryLock(t.Context()); !errors.Is(err, ErrBusy) || store.tries.Load() != before {
			t.Errorf("a writer holds the name: got %v, and %d calls", err, store.tries.Load()-before)
		}
		cancel()
		wg.Wait()
		_ = held.Unlock()
	})
}

// A caller that does not wait returns although the store fails, and does not wait behind another
// goroutine that asks the store again.
func TestTryLockOfAFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
			time.Sleep(10 * time.Millisecond)
			return driver.Outcome{}, driver.ErrNotExecuted
		}
		l := New(store, nil)
		read := l.RWMutex("job").Read
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _, _ = read.Lock(ctx) })
		}
		synctest.Wait()
		for range 2 { // while the others ask for the first time, and while one waits after an error
			start := time.Now()
			tryCtx, stop := context.WithTimeout(t.Context(), time.Minute)
			if _, err := read.TryLock(tryCtx); err == nil || errors.Is(err, ErrBusy) || time.Since(start) > time.Second {
				t.Errorf("got %v after %v", err, time.Since(start))
			}
			stop()
			time.Sleep(time.Second)
		}
		cancel()
		wg.Wait()
	})
}

// refusingTries is a store in whose queue others wait: it refuses each claim that does not wait.
type refusingTries struct {
	*far
	asked atomic.Int64 // number of tries of claims that wait
}

func (s *refusingTries) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if c.NoQueue {
		time.Sleep(s.rtt)
		return driver.Outcome{RetryAfter: time.Second}, nil
	}
	s.asked.Add(1)
	return s.far.Try(ctx, c)
}

// Goroutines that try again and again do not keep a goroutine that waits from asking the store.
func TestTriesDoNotHoldBackAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusingTries{far: newFar()}
		l := New(store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 2 * sharedFirst {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 37 * time.Microsecond) // so that some of them always ask
				for ctx.Err() == nil {
					_, _ = l.Semaphore("job", 1).TryAcquire(ctx)
				}
			})
		}
		time.Sleep(10 * store.rtt)
		began := time.Now()
		k, err := l.Semaphore("job", 1).Acquire(t.Context(), Wait(time.Minute))
		if err != nil || time.Since(began) > 2*store.rtt {
			t.Errorf("got %v after %v and %d tries", err, time.Since(began), store.asked.Load())
		}
		if err == nil {
			_ = k.Unlock()
		}
		cancel()
		wg.Wait()
	})
}

// However many goroutines can have a name together, only so many ask at once.
func TestTriesAtOnceAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		session time.Duration
		most    int64
	}{
		"each claim has a lease":   {0, sharedMost},
		"the store keeps sessions": {time.Minute, sharedFirst},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFar()
				store.session = tt.session
				l := New(store, nil)
				var wg sync.WaitGroup
				for range 2 * sharedMost {
					wg.Go(func() {
						if k, err := l.RWMutex("job").Read.Lock(t.Context()); err != nil {
							t.Error(err)
						} else {
							time.Sleep(time.Minute)
							_ = k.Unlock()
						}
					})
				}
				wg.Wait()
				if got := store.atOnce.Load(); got != tt.most {
					t.Errorf("%d tries at once, want %d", got, tt.most)
				}
			})
		})
	}
}

// When one permit becomes free, not all waiters ask for it.
func TestOnePermitIsNotStormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		store := newFar()
		l, other := New(store, nil), New(store.Backend, nil)
		held, _ := other.Semaphore("job", 1).Acquire(t.Context())
		var inside, most atomic.Int32
		wg := crowdOf(n, func() {
			k, err := l.Semaphore("job", 1).Acquire(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			most.Store(max(most.Load(), inside.Add(1)))
			time.Sleep(50 * time.Millisecond)
			inside.Add(-1)
			_ = k.Unlock()
		})
		before := store.tries.Load()
		_ = held.Unlock()
		wg.Wait()
		tries := store.tries.Load() - before
		t.Logf("%d tries", tries)
		if most.Load() != 1 || tries > 2*n+10 {
			t.Errorf("%d held one permit, the store was asked %d times for %d grants, want two each", most.Load(), tries, n)
		}
	})
}

// However claims come, wait, give up, are granted and end, no waiter is left in the queue.
func TestSharedQueueForgetsNobody(t *testing.T) {
	for _, permits := range []int{1, 3, 10} {
		synctest.Test(t, func(t *testing.T) {
			store := newFar()
			l, other := New(store, nil), New(store, nil)
			var wg sync.WaitGroup
			var granted, gaveUp atomic.Int64
			for i := range 200 {
				locker := l
				if i%5 == 0 {
					locker = other
				}
				wg.Go(func() {
					time.Sleep(time.Duration(i%37) * 7 * time.Millisecond)
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					if i%7 == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*3*time.Millisecond)
					}
					defer cancel()
					k, err := locker.Semaphore("job", permits).Acquire(ctx)
					if errors.Is(err, context.DeadlineExceeded) && i%7 == 0 {
						gaveUp.Add(1)
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					granted.Add(1)
					time.Sleep(time.Duration(i%11) * 5 * time.Millisecond)
					_ = k.Unlock()
				})
			}
			start := time.Now()
			wg.Wait()
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%d permits: took %v", permits, took)
			}
			_ = l.Drain(t.Context())
			_ = other.Drain(t.Context())
			if n := queuesOf(l) + queuesOf(other); n != 0 || granted.Load()+gaveUp.Load() != 200 {
				t.Errorf("%d permits: %d queues are left; %d granted, %d gave up", permits, n, granted.Load(), gaveUp.Load())
			}
			if _, free, _ := store.Permits(t.Context(), "job"); free != permits {
				t.Errorf("%d of %d permits are free", free, permits)
			}
		})
	}
}

// If several heads were admitted together, only one of them asks a store that fails.
func TestFailingStoreIsNotStormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		store := faulty.New()
		var tries atomic.Int64
		l, other := New(store, nil), New(store.Backend, nil)
		held, _ := other.RWMutex("job").Write.Lock(t.Context())
		wg := crowdOf(n, func() {
			k, err := l.RWMutex("job").Read.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			_ = k.Unlock()
		})
		granted := false
		store.Change(func() {
			store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				if !granted {
					granted = true
					return store.Backend.Try(ctx, c)
				}
				tries.Add(1)
				return driver.Outcome{}, driver.ErrNotExecuted
			}
		})
		_ = held.Unlock()
		time.Sleep(10 * time.Second)
		if got := tries.Load(); got > 2*n {
			t.Errorf("a failing store was asked %d times in 10 s by %d readers", got, n)
		}
		store.Change(func() { store.OnTry = nil })
		start := time.Now()
		wg.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("it came back, and the last reader had the lock %v later", took)
		}
		if n := queuesOf(l); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}
