package holdfast_test

import (
	"context"
	"errors"
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
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// sessions is a store that keeps all claims of a client together, as long as any of them is
// renewed. No claim ends by itself.
type sessions struct {
	*faulty.Store
	mu   sync.Mutex
	held map[string]time.Time // by name: since when
	free map[string]time.Time // when it was released
}

func newSessions() *sessions {
	s := &sessions{Store: faulty.New(), held: make(map[string]time.Time), free: make(map[string]time.Time)}
	s.OnTry = func(_ context.Context, c driver.Claim) (driver.Outcome, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held[c.Name] = time.Now()
		return driver.Outcome{Granted: true, Token: 1, ValidFor: c.TTL}, nil
	}
	s.OnRenew = func(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
		answers := make([]driver.Renewal, len(cs))
		for i, c := range cs {
			answers[i].ValidFor = c.TTL
		}
		return answers, nil
	}
	s.OnRelease = func(_ context.Context, c driver.Claim) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.free[c.Name].IsZero() {
			s.free[c.Name] = time.Now()
		}
		return nil
	}
	return s
}

func (s *sessions) Info() driver.Info {
	info := s.Store.Info()
	info.SessionTTL, info.SessionOption = 30*time.Second, "sessionhold.Options.TTL"
	return info
}

// All leases of a session have its TTL, which is the default. Another TTL is refused, and
// the error names the option that changes it.
func TestTTLIsThatOfTheSession(t *testing.T) {
	store := newSessions()
	_, err := holdfast.New(store, &holdfast.Options{TTL: 10 * time.Second}).Lock(t.Context(), "job")
	if err == nil || !strings.Contains(err.Error(), "TTL of 10s: memory keeps all locks of a client for 30s; change that with sessionhold.Options.TTL") {
		t.Errorf("got error %v, want one that says how to change the TTL", err)
	}
	store.OnTry = func(_ context.Context, c driver.Claim) (driver.Outcome, error) {
		if c.TTL != time.Minute {
			t.Errorf("got a claim of %v, want the session's minute", c.TTL)
		}
		return driver.Outcome{Granted: true, Token: 1, ValidFor: c.TTL}, nil
	}
	must.Unlock(t, must.Lock(t, holdfast.New(minutely{store}, nil), "job"))
}

// minutely is a store whose sessions last a minute.
type minutely struct{ *sessions }

func (s minutely) Info() driver.Info {
	info := s.sessions.Info()
	info.SessionTTL = time.Minute
	return info
}

// released fails unless name was released between lo and hi after it was taken.
func (s *sessions) released(t *testing.T, name string, lo, hi time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free[name].IsZero() {
		t.Errorf("%q was never released: the store keeps it for as long as the session lives", name)
		return
	}
	between(t, "released after", s.free[name].Sub(s.held[name]), lo, hi)
}

// If leases do not end by themselves, a lock that ends without Unlock is released when its
// lease would have ended.
func TestSessionStoreAlwaysGetsARelease(t *testing.T) {
	for name, test := range map[string]struct {
		run    func(t *testing.T, s *sessions, l *holdfast.Locker)
		lo, hi time.Duration
	}{
		"Lease ends": {func(t *testing.T, _ *sessions, l *holdfast.Locker) {
			lock := must.Lock(t, l, "job", holdfast.FixedLease(time.Minute))
			<-lock.Context(t.Context()).Done()
			time.Sleep(time.Minute)
			_ = lock.Unlock()
		}, time.Minute, 61 * time.Second},
		"lost": {func(t *testing.T, s *sessions, l *holdfast.Locker) {
			lock := must.Lock(t, l, "job")
			s.Change(func() {
				s.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
			})
			<-lock.Context(t.Context()).Done()
			time.Sleep(time.Minute)
			_ = lock.Unlock()
		}, 30 * time.Second, 31 * time.Second},
		"Unlock after the lease": {func(t *testing.T, s *sessions, l *holdfast.Locker) {
			lock := must.Lock(t, l, "job")
			s.Change(func() {
				s.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
			})
			<-lock.Context(t.Context()).Done()
			time.Sleep(time.Second)
			_ = lock.Unlock() // the work is done: others need not wait for the end of the lease
		}, 27 * time.Second, 29 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSessions()
				l := holdfast.New(store, nil)
				test.run(t, store, l)
				drainNow(t, l)
				store.released(t, "job", test.lo, test.hi)
			})
		})
	}
}

// The garbage collector finds a lock that was dropped. It does not use the clock of the
// test.
func TestSessionStoreGetsAReleaseOfADroppedLock(t *testing.T) {
	store := newSessions()
	l := holdfast.New(store, nil)
	must.Lock(t, l, "job", holdfast.FixedLease(20*time.Millisecond))
	for range 1000 {
		runtime.GC()
		drainNow(t, l)
		store.mu.Lock()
		released := !store.free["job"].IsZero()
		store.mu.Unlock()
		if released {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("never released: the store keeps it for as long as the session lives")
}

// queueing is a store with sessions that queues fair claims.
type queueing struct{ *faulty.Store }

func (s queueing) Info() driver.Info {
	info := s.Store.Info()
	info.SessionTTL, info.Recheck = 30*time.Second, time.Hour
	return info
}

// A client that only waits renews its place in the store's queue, so that its session
// does not end. If the place is lost, it is taken again at once.
func TestPlaceInTheQueueIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := queueing{faulty.New()}
		holder := driver.Claim{Name: "job", Owner: "elsewhere:1", Fair: true, TTL: 24 * time.Hour, Count: 1, Tokens: 1}
		if out, err := store.Try(t.Context(), holder); err != nil || !out.Granted {
			t.Fatalf("%+v, %v", out, err)
		}
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			out, err := store.Backend.Try(ctx, c)
			out.RetryAfter = 0 // nothing but a renewal keeps the place
			return out, err
		}
		var gone atomic.Bool
		store.OnRenew = func(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			answer := driver.Renewal{ValidFor: 30 * time.Second}
			if gone.Load() {
				answer.Err = driver.ErrGone
			}
			return slices.Repeat([]driver.Renewal{answer}, len(cs)), nil
		}
		l := holdfast.New(store, nil)
		got := make(chan *holdfast.Lock)
		go func() {
			lock, err := l.FairMutex("job").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		time.Sleep(10 * time.Minute)
		if n := store.Renews.Load(); n < 60 || n > 70 {
			t.Errorf("%d renewals in 10 minutes, want one in each 10s", n)
		}
		tries := store.Tries.Load()
		gone.Store(true)
		time.Sleep(11 * time.Second)
		if n := store.Tries.Load() - tries; n < 1 || n > 3 {
			t.Errorf("the place was lost, and again: %d tries, want one for each time", n)
		}
		gone.Store(false)
		renews := store.Renews.Load()
		time.Sleep(time.Minute)
		if n := store.Renews.Load() - renews; n < 6 {
			t.Errorf("the new place was renewed %d times in a minute", n)
		}
		if err := store.Release(t.Context(), holder); err != nil {
			t.Fatal(err)
		}
		lock := <-got
		must.Unlock(t, lock)
		synctest.Wait() // a renewal may have been due at the same instant
		renews = store.Renews.Load()
		time.Sleep(time.Hour)
		if n := store.Renews.Load() - renews; n != 0 {
			t.Errorf("%d renewals after all was over", n)
		}
		drainNow(t, l)
	})
}

// A waiter that gives up leaves the queue, and its claim is not renewed any more.
func TestPlaceInTheQueueIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := queueing{faulty.New()}
		holder := driver.Claim{Name: "job", Owner: "elsewhere:1", Fair: true, TTL: 24 * time.Hour, Count: 1, Tokens: 1}
		if out, err := store.Try(t.Context(), holder); err != nil || !out.Granted {
			t.Fatalf("%+v, %v", out, err)
		}
		l := holdfast.New(store, nil)
		if lock, err := l.FairMutex("job").Lock(t.Context(), holdfast.Wait(time.Minute)); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("got %v, %v, want ErrBusy", lock, err)
		}
		drainNow(t, l)
		synctest.Wait() // a renewal may have been due at the same instant
		renews := store.Renews.Load()
		time.Sleep(time.Hour)
		if n := store.Renews.Load() - renews; n != 0 {
			t.Errorf("%d renewals of a place that was given up", n)
		}
	})
}

// A store may grant less than the TTL. The lease is renewed after a third of what was
// granted.
func TestRenewalFollowsWhatTheStoreGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const granted = 10 * time.Second
		store := faulty.New()
		store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
			return driver.Outcome{Granted: true, Token: 1, ValidFor: granted}, nil
		}
		store.OnRenew = func(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			return []driver.Renewal{{ValidFor: granted}}, nil
		}
		store.OnRelease = func(context.Context, driver.Claim) error { return nil }
		l := holdfast.New(store, nil)
		lock := must.Lock(t, l, "job")
		time.Sleep(time.Hour)
		if err := lock.Err(); err != nil {
			t.Errorf("the store renewed it each time: %v", err)
		}
		if got, most := store.Renews.Load(), int64(time.Hour/(granted/3)+60); got > most {
			t.Errorf("%d renewals in an hour, want about three in each %v, not more than %d", got, granted, most)
		}
		must.Unlock(t, lock)
	})
}

// A lease ends at its time and is then released, also if it is longer than a session: until
// then the lock is renewed.
func TestLeaseOnASessionStore(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 25 * time.Second, 31 * time.Second, 2 * time.Minute} {
		t.Run(d.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { leaseOf(t, d) }) })
	}
}

func leaseOf(t *testing.T, d time.Duration) {
	t.Helper()
	store := newSessions()
	ended := make(chan holdfast.Event, 1)
	l := holdfast.New(capped{store}, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
		switch {
		case e.Type == holdfast.EventLoss:
			ended <- e
		case e.Late:
			t.Errorf("got a late renewal with %v left", e.Margin)
		}
	}})
	lock := must.Lock(t, l, "job", holdfast.FixedLease(d))
	began := time.Now()
	<-lock.Context(t.Context()).Done()
	between(t, "ended after", time.Since(began), d-min(d/10, 3*time.Second), d)
	if e := <-ended; !e.Leased || e.Reason != driver.ReasonExpired {
		t.Errorf("got a loss for the reason %q, of a lease %v; want one that expired, of a lease", e.Reason, e.Leased)
	}
	drainNow(t, l)
	store.released(t, "job", d, d+time.Second)
	runtime.KeepAlive(lock) // a Lock that is collected counts as dropped
}

// However long a lease is, its claim asks for a session at most, because no one renews it
// if the process dies.
func TestNoClaimIsLongerThanASession(t *testing.T) {
	store := newSessions()
	store.OnTry = func(_ context.Context, c driver.Claim) (driver.Outcome, error) {
		if c.TTL > 30*time.Second {
			t.Errorf("got a claim of %v, want 30s at most", c.TTL)
		}
		return driver.Outcome{Granted: true, Token: 1, ValidFor: c.TTL}, nil
	}
	l := holdfast.New(capped{store}, nil)
	for _, d := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		must.Unlock(t, must.Lock(t, l, "job", holdfast.FixedLease(d)))
	}
}

// capped is a store that keeps no lock for longer than its sessions.
type capped struct{ *sessions }

func (s capped) Info() driver.Info {
	info := s.sessions.Info()
	info.MaxTTL = info.SessionTTL
	return info
}

// A lease that is lost because the store is unreachable did not end as its user wanted.
func TestOutageDuringALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSessions()
		l := holdfast.New(capped{store}, nil)
		lock := must.Lock(t, l, "job", holdfast.FixedLease(10*time.Minute))
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
		})
		<-lock.Context(t.Context()).Done()
		var lost *holdfast.LostError
		if err := lock.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonUnreachable {
			t.Errorf("got %v, want a loss for the reason %s", err, driver.ReasonUnreachable)
		}
		_ = lock.Unlock()
		drainNow(t, l)
	})
}
