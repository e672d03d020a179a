package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// slowRelease is how long a release takes to arrive.
const slowRelease = 100 * time.Millisecond

// asyncLocker returns a Locker with AsyncUnlock, whose releases arrive late, and answer with
// the result of `answer` if that is not nil; and a function that returns its events.
func asyncLocker(t *testing.T, answer func(error) error) (*holdfast.Locker, func() []holdfast.Event) {
	t.Helper()
	store := faulty.New()
	store.OnRelease = func(ctx context.Context, c driver.Claim) error {
		time.Sleep(slowRelease)
		if c.Name == "other" {
			time.Sleep(slowRelease)
		}
		err := store.Backend.Release(ctx, c)
		if answer != nil {
			err = answer(err)
		}
		return err
	}
	var mu sync.Mutex
	var events []holdfast.Event
	l := holdfast.New(store, &holdfast.Options{AsyncUnlock: true, Observe: func(_ context.Context, e holdfast.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Type == holdfast.EventRelease || e.Type == holdfast.EventLoss {
			events = append(events, e)
		}
	}})
	return l, func() []holdfast.Event {
		mu.Lock()
		defer mu.Unlock()
		return events
	}
}

// unlockWithin unlocks k, and wants that to take so long.
func unlockWithin(t *testing.T, k *holdfast.Lock, want time.Duration) {
	t.Helper()
	start := time.Now()
	if err := k.Unlock(); err != nil || time.Since(start) != want {
		t.Fatalf("Unlock took %v with error %v, want %v", time.Since(start), err, want)
	}
}

// Unlock does not wait for the store. The answer of the store goes to Observe.
func TestAsyncUnlock(t *testing.T) {
	gone := &driver.GoneError{Reason: driver.ReasonDeleted}
	for _, tt := range []struct {
		name   string
		answer func(error) error
		want   error
		events int
	}{
		{"released", nil, nil, 1},
		{"lost before", func(error) error { return gone }, holdfast.ErrLost, 2},
		{"the answer is lost once", onlyOnce(errors.New("connection reset")), nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, events := asyncLocker(t, tt.answer)
				k := must.Lock(t, l, "job")
				unlockWithin(t, k, 0)
				if err := k.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
					t.Errorf("a second Unlock returned %v, want ErrUnlocked", err)
				}
				if got := events(); len(got) != 0 {
					t.Errorf("got %v before the store has answered", got)
				}
				must.Drain(t, l)
				got := events()
				if len(got) != tt.events || !errors.Is(got[0].Err, tt.want) || (got[0].Err == nil) != (tt.want == nil) {
					t.Errorf("got the events %v, want %d, the first with error %v", got, tt.events, tt.want)
				}
			})
		})
	}
}

// onlyOnce returns a function that replaces an answer with err the first time.
func onlyOnce(err error) func(error) error {
	var once sync.Once
	return func(answer error) error {
		once.Do(func() { answer = err })
		if errors.Is(answer, driver.ErrGone) {
			return nil
		}
		return answer
	}
}

// A goroutine that asks for the name again does not find it busy because of the release that is
// on its way, whatever it calls.
func TestAsyncUnlockIsNotMet(t *testing.T) {
	ctx := context.Background()
	for name, again := range map[string]func(*holdfast.Locker) error{
		"Lock":    func(l *holdfast.Locker) error { _, err := l.Lock(ctx, "job"); return err },
		"TryLock": func(l *holdfast.Locker) error { _, err := l.TryLock(ctx, "job"); return err },
		"LockAll": func(l *holdfast.Locker) error {
			_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("job"), l.Mutex("other")}, holdfast.Wait(0))
			return err
		},
		"two at once": func(l *holdfast.Locker) error {
			var wg sync.WaitGroup
			errs := make([]error, 2)
			for i := range errs {
				wg.Go(func() {
					k, err := l.TryLock(ctx, "job", holdfast.Wait(3*slowRelease))
					if errs[i] = err; err == nil {
						errs[i] = k.Unlock()
					}
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := asyncLocker(t, nil)
				unlockWithin(t, must.Lock(t, l, "job"), 0)
				start := time.Now()
				if err := again(l); err != nil || time.Since(start) > 2*slowRelease {
					t.Errorf("after %v: %v, want the lock when the release has arrived", time.Since(start), err)
				}
				must.Drain(t, l)
			})
		})
	}
}

// The other side of a read-write lock does not meet the release either.
func TestAsyncUnlockOfAWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := asyncLocker(t, nil)
		rw := l.RWMutex("job")
		w, err := rw.Write.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlockWithin(t, w, 0)
		r, err := rw.Read.TryLock(t.Context())
		if err != nil {
			t.Fatalf("a reader behind the release: %v", err)
		}
		unlockWithin(t, r, slowRelease) // several may hold it, so its Unlock waits
		must.Drain(t, l)
	})
}

// Some calls wait for the store, because their results need its answer.
func TestAsyncUnlockWaits(t *testing.T) {
	gone := &driver.GoneError{Reason: driver.ReasonDeleted}
	t.Run("Do", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, _ := asyncLocker(t, func(error) error { return gone })
			_, err := holdfast.Do(t.Context(), l, "job", func(context.Context, *holdfast.Lock) (int, error) { return 1, nil })
			if !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
		})
	})
	t.Run("AtLeast", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, _ := asyncLocker(t, nil)
			unlockWithin(t, must.Lock(t, l, "job", holdfast.AtLeast(time.Minute)), slowRelease)
		})
	})
	t.Run("a loss that is known", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, _ := asyncLocker(t, nil)
			k := must.Lock(t, l, "job", holdfast.FixedLease(time.Second))
			time.Sleep(2 * time.Second)
			if err := k.Unlock(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
			must.Drain(t, l)
		})
	})
}

// twoRoads is a store to which releases travel over one connection, and all other calls over
// another one, which is faster. As in Redis, a quiet release notifies nobody.
type twoRoads struct {
	*faulty.Store
	late time.Duration // how long a release needs to arrive

	mu       sync.Mutex
	changed  chan struct{} // closed at the next notification
	lost     int           // how many of the next releases get lost on their way
	failures int           // how many of the next calls of Wake fail
	quiet    int           // how many quiet releases have arrived
	arrived  time.Time     // when the last release arrived
}

func newTwoRoads(late time.Duration) *twoRoads {
	return &twoRoads{Store: faulty.New(), late: late, changed: make(chan struct{})}
}

func (s *twoRoads) notification() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *twoRoads) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *twoRoads) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	s.mu.Lock()
	now := s.changed
	s.mu.Unlock()
	out, err := s.Store.Try(ctx, c)
	out.Ahead = now
	return out, err
}

func (s *twoRoads) Release(ctx context.Context, c driver.Claim) error {
	s.mu.Lock()
	lost := s.lost > 0
	if lost {
		s.lost--
	} else if c.Quiet {
		s.quiet++
	}
	s.mu.Unlock()
	if time.Sleep(s.late); lost {
		return errors.New("connection reset")
	}
	err := s.Store.Release(ctx, c)
	s.mu.Lock()
	s.arrived = time.Now()
	s.mu.Unlock()
	if !c.Quiet {
		s.notify()
	}
	return err
}

func (s *twoRoads) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	return func() (int, error) { return 1, s.Release(ctx, c) }
}

func (s *twoRoads) ReleaseNow(ctx context.Context, c driver.Claim) (others int, err error) {
	return s.StartRelease(ctx, c)()
}

func (s *twoRoads) Wake(context.Context, driver.Claim) error {
	s.mu.Lock()
	fails := s.failures > 0
	if fails {
		s.failures--
	}
	s.mu.Unlock()
	if fails {
		return errors.New("connection reset")
	}
	s.notify()
	return nil
}

func (s *twoRoads) Waiter(driver.Claim) driver.Waiter { return roadWaiter{s} }

// roadWaiter waits for a notification of twoRoads.
type roadWaiter struct{ store *twoRoads }

func (w roadWaiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	changed, ok := last.Ahead.(chan struct{})
	if !ok {
		changed = w.store.notification()
	}
	select {
	case <-changed:
		return driver.Outcome{}, nil
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
}

func (roadWaiter) Close() {}

// inBurst returns a lock of the Locker l that begins a burst: in the next 5 ms its release is
// quiet if another goroutine of l waits. It ends when `other`, which must be another Locker of
// the same store, has unlocked "job".
func inBurst(t *testing.T, l, other *holdfast.Locker) *holdfast.Lock {
	t.Helper()
	held := must.Lock(t, other, "job")
	got := standing(t, l, 1)
	must.Unlock(t, held)
	return <-got
}

// withoutHandoff returns a Locker of s whose goroutines do not pass locks on.
func withoutHandoff(s driver.Backend) *holdfast.Locker {
	return holdfast.New(s, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
}

const slowRoad = 20 * time.Millisecond

// A try that arrives before the quiet release of its own process is repeated when the store has
// answered the release. No message announces a quiet release.
func TestTryOvertakesAQuietRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTwoRoads(slowRoad)
		a, b := withoutHandoff(store), withoutHandoff(store)
		first := inBurst(t, a, b)
		next := standing(t, a, 1)
		other := standing(t, b, 1)
		began := time.Now()
		must.Unlock(t, first)
		second := <-next
		between(t, "the next goroutine had the lock after", time.Since(began), slowRoad, slowRoad+time.Millisecond)
		if store.quiet != 1 {
			t.Fatalf("%d releases were quiet, want 1", store.quiet)
		}
		must.Unlock(t, second)
		must.Unlock(t, <-other)
		must.Drain(t, a)
		must.Drain(t, b)
	})
}

// If nobody of the process takes the lock after a quiet release, other clients are notified, and
// not before the store has the release.
func TestWakeFollowsTheRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		lost     int           // how many releases get lost
		failures int           // how many notifications fail
		most     time.Duration // when the other client has the lock at the latest
	}{
		"no fault":                     {0, 0, slowRoad + time.Millisecond},
		"two notifications fail":       {0, 2, slowRoad + 40*time.Millisecond},
		"the release is lost at first": {1, 0, 2*slowRoad + 20*time.Millisecond},
	} {
		for when, giveUp := range map[string]time.Duration{"before the release arrives": slowRoad / 2, "at once": 0} {
			t.Run(name+", gives up "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newTwoRoads(slowRoad)
					a, b := withoutHandoff(store), withoutHandoff(store)
					first := inBurst(t, a, b)
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error)
					go func() {
						_, err := a.Lock(ctx, "job")
						ended <- err
					}()
					synctest.Wait()
					other := standing(t, b, 1)
					store.mu.Lock()
					store.lost, store.failures = tt.lost, tt.failures
					store.mu.Unlock()
					time.AfterFunc(giveUp, cancel)
					began := time.Now()
					go func() { must.Unlock(t, first) }()
					lock := <-other
					between(t, "the other client had the lock after", time.Since(began), slowRoad, tt.most)
					if err := <-ended; !errors.Is(err, context.Canceled) {
						t.Errorf("the caller that gives up got %v, want the error of its context", err)
					}
					must.Unlock(t, lock)
					must.Drain(t, a)
					must.Drain(t, b)
				})
			})
		}
	}
}

// If a quiet release does not reach the store before Unlock returns, the release that arrives later
// notifies all waiters: no try of this process follows it at once.
func TestALateReleaseNotifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTwoRoads(slowRoad)
		a, b := withoutHandoff(store), withoutHandoff(store)
		first := inBurst(t, a, b)
		next := standing(t, a, 1)
		store.mu.Lock()
		store.lost = 1 << 30
		store.mu.Unlock()
		time.AfterFunc(5*time.Second, func() {
			store.mu.Lock()
			defer store.mu.Unlock()
			store.lost = 0
		})
		if err := first.Unlock(); err == nil {
			t.Fatal("Unlock returned nil although no release reached the store")
		}
		second := <-next
		store.mu.Lock()
		after := time.Since(store.arrived)
		store.mu.Unlock()
		between(t, "the next goroutine had the lock after the release by", after, 0, time.Millisecond)
		must.Unlock(t, second)
		must.Drain(t, a)
		must.Drain(t, b)
	})
}

// A refusal because of the own release does not count as the turn of another client. So a burst
// ends after 5 ms, also if each try arrives before the release ahead of it.
func TestABurstEndsThoughTriesOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTwoRoads(time.Millisecond)
		a, b := withoutHandoff(store), withoutHandoff(store)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		turns := map[*holdfast.Locker]int{}
		work := func(l *holdfast.Locker) {
			for {
				lock, err := l.Lock(ctx, "job")
				if err != nil {
					return
				}
				mu.Lock()
				turns[l]++
				mu.Unlock()
				time.Sleep(100 * time.Microsecond)
				must.Unlock(t, lock)
			}
		}
		for range 3 {
			all.Go(func() { work(a) })
		}
		all.Go(func() { work(b) })
		all.Wait()
		if turns[b] < 40 {
			t.Errorf("one client had %d turns, the other %d in a second; want at least 40 of the second", turns[a], turns[b])
		}
		must.Drain(t, a)
		must.Drain(t, b)
	})
}

// With AsyncUnlock, TryLock waits until the store has the release, also if the first request of
// the release is lost.
func TestTryLockWaitsForALostAsyncRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTwoRoads(slowRoad)
		l := holdfast.New(store, &holdfast.Options{AsyncUnlock: true})
		lock := must.Lock(t, l, "job")
		store.lost = 1
		must.Unlock(t, lock)
		for _, after := range []time.Duration{0, slowRoad + time.Millisecond} {
			time.Sleep(after)
			if again, err := l.TryLock(t.Context(), "job"); err != nil {
				t.Errorf("%v after Unlock: %v", after, err)
			} else {
				store.mu.Lock()
				store.lost = 1
				store.mu.Unlock()
				must.Unlock(t, again)
			}
		}
		must.Drain(t, l)
	})
}

// If the lease ends before the store has confirmed the release, Unlock says so, and nothing goes
// on in the background.
func TestUnlockAtTheEndOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		var log bytes.Buffer
		l := holdfast.New(store, &holdfast.Options{TTL: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lock := must.Lock(t, l, "a")
		calls := 0
		store.Change(func() {
			store.OnRelease = func(ctx context.Context, _ driver.Claim) error {
				calls++
				return faulty.Hang(ctx)
			}
		})
		err := lock.Unlock()
		if err == nil || !strings.Contains(err.Error(), "not confirmed; the lease has ended") {
			t.Errorf("got %v, want that the lease has ended", err)
		}
		before := calls
		must.Drain(t, l)
		if calls != before || strings.Contains(log.String(), "clean-up") {
			t.Errorf("%d more releases after Unlock, and the log %q; want none", calls-before, &log)
		}
	})
}
