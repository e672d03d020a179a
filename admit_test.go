package holdfast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/memhold"
)

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
