package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// least is longer than a lease in some tests, and shorter in others.
const least = 20 * time.Second

// A name that is kept becomes free so long after its grant, for other clients and for this
// one, whenever it was unlocked. A hold that lasts longer frees it at its Unlock.
func TestAtLeast(t *testing.T) {
	for _, held := range []time.Duration{0, 5 * time.Millisecond, least - time.Second, least, least + 5*time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := memhold.New()
			l, other := holdfast.New(store, &holdfast.Options{TTL: ttl}), holdfast.New(store, nil)
			began := time.Now()
			lock := must.Lock(t, l, "job", holdfast.AtLeast(least))
			ctx := lock.Context(t.Context())
			free := make(chan time.Duration, 2)
			for _, who := range []*holdfast.Locker{l, other} {
				go func() {
					next := must.Lock(t, who, "job")
					free <- time.Since(began)
					must.Unlock(t, next)
				}()
			}
			time.Sleep(held)
			must.Unlock(t, lock)
			if took := time.Since(began) - held; took != 0 || !errors.Is(context.Cause(ctx), holdfast.ErrUnlocked) {
				t.Errorf("Unlock took %v, and the context's cause is %v", took, context.Cause(ctx))
			}
			for range 2 {
				if at, want := <-free, max(held, least); at < want || at > want+time.Second {
					t.Errorf("held for %v: granted again after %v, want %v", held, at, want)
				}
			}
			must.Drain(t, l)
			must.Drain(t, other)
		})
	}
}

// Each attempt of a release has the time that is left when it is sent.
func TestAtLeastOfARepeatedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: time.Minute})
		lock := must.Lock(t, l, "job", holdfast.AtLeast(least))
		granted := time.Now()
		sent := 0
		store.Change(func() {
			store.OnRelease = func(ctx context.Context, c driver.Claim) error {
				if end := time.Now().Add(c.AtLeast); !end.Equal(granted.Add(least)) {
					t.Errorf("attempt %d: the name would stay taken until %v after its grant, want %v", sent, end.Sub(granted), least)
				}
				if sent++; sent < 6 {
					return faulty.Hang(ctx)
				}
				return store.Backend.Release(ctx, c)
			}
		})
		time.Sleep(time.Second)
		_ = lock.Unlock() // it goes on in the background
		must.Drain(t, l)
		if hs := holders(t, store, "job"); sent != 6 || len(hs) != 1 || !time.Now().Add(hs[0].Remaining).Equal(granted.Add(least)) {
			t.Errorf("%d attempts, and %+v", sent, hs)
		}
	})
}

// If locks are unlocked together, each name is kept from its own grant on.
func TestAtLeastOfSeveralLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, nil)
		began := time.Now()
		locks := holdfast.Locks{must.Lock(t, l, "first", holdfast.AtLeast(least)), must.Lock(t, l, "free")}
		time.Sleep(time.Second)
		locks = append(locks, must.Lock(t, l, "second", holdfast.AtLeast(least)))
		must.UnlockAll(t, locks)
		must.Unlock(t, must.Lock(t, l, "free", holdfast.Wait(0)))
		for i, name := range []string{"first", "second"} {
			next := must.Lock(t, l, name)
			if at, want := time.Since(began), least+time.Duration(i)*time.Second; at < want || at > want+time.Second {
				t.Errorf("%s: granted again after %v, want %v", name, at, want)
			}
			must.Unlock(t, next)
		}
		must.Drain(t, l)
	})
}

// A name is kept for a caller that had the lock. It is free if the caller gave up, or lost
// the lock.
func TestAtLeastIsForWhoHadTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		store.Change(func() {
			store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				_, _ = store.Backend.Try(ctx, c)
				return driver.Outcome{}, faulty.Hang(ctx)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.TryLock(ctx, "job", holdfast.AtLeast(time.Hour)); err == nil {
			t.Fatal("got a lock without an answer")
		}
		must.Drain(t, l)
		mustBeFree(t, store, "job")

		store.Change(func() { store.OnTry = nil })
		lock := must.Lock(t, l, "job", holdfast.AtLeast(time.Hour))
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
		})
		<-lock.Context(t.Context()).Done()
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: got %v, want ErrLost", err)
		}
		must.Drain(t, l)
		mustBeFree(t, store, "job")
	})
}

// lacking is a store without some of its features.
type lacking struct {
	driver.Backend
	lacks func(*driver.Caps)
}

func (s lacking) Info() driver.Info {
	info := s.Backend.Info()
	s.lacks(&info.Caps)
	return info
}

// A lock that is kept is not passed on, and a caller with AtLeast gets its own lease from
// the store. Without tokens, any other lock may be passed on.
func TestAtLeastIsNotPassedOn(t *testing.T) {
	for _, keeps := range [][2]bool{{false, false}, {true, false}, {false, true}} {
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			l := holdfast.New(lacking{store, func(c *driver.Caps) { c.Fencing = false }}, nil)
			take := func(keep bool) *holdfast.Lock {
				if keep {
					return must.Lock(t, l, "job", holdfast.AtLeast(time.Second))
				}
				return must.Lock(t, l, "job")
			}
			lock := take(keeps[0])
			done := make(chan struct{})
			go func() {
				defer close(done)
				must.Unlock(t, take(keeps[1]))
			}()
			synctest.Wait()
			must.Unlock(t, lock)
			<-done
			if passedOn := store.Tries.Load() == 1; passedOn != (keeps == [2]bool{}) {
				t.Errorf("kept: %v: passed on: %v", keeps, passedOn)
			}
			must.Drain(t, l)
		})
	}
}

func TestAtLeastIsRefused(t *testing.T) {
	l, bare := holdfast.New(memhold.New(), nil), holdfast.New(lacking{memhold.New(), func(c *driver.Caps) { c.AtLeast = false }}, nil)
	owner := holdfast.WithOwner(t.Context())
	held, err := l.Lock(owner, "held")
	if err != nil {
		t.Fatal(err)
	}
	defer must.Unlock(t, held)
	for name, try := range map[string]func() error{
		"fair": func() error {
			_, err := l.FairMutex("job").Lock(t.Context(), holdfast.AtLeast(time.Second))
			return err
		},
		"read": func() error {
			_, err := l.RWMutex("job").Read.Lock(t.Context(), holdfast.AtLeast(time.Second))
			return err
		},
		"write": func() error {
			_, err := l.RWMutex("job").Write.Lock(t.Context(), holdfast.AtLeast(time.Second))
			return err
		},
		"semaphore": func() error {
			_, err := l.Semaphore("job", 1).Acquire(t.Context(), holdfast.AtLeast(time.Second))
			return err
		},
		"store":    func() error { _, err := bare.Lock(t.Context(), "job", holdfast.AtLeast(time.Second)); return err },
		"re-entry": func() error { _, err := l.Lock(owner, "held", holdfast.AtLeast(time.Second)); return err },
	} {
		if err := try(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrUnsupported", name, err)
		}
	}
	if _, err := l.Lock(t.Context(), "job", holdfast.AtLeast(-1)); err == nil {
		t.Error("a negative AtLeast: got nil, want an error")
	}
	// The limit is not the TTL of a session, because the name is not kept by the session.
	_, err = holdfast.New(newSessions(), nil).Lock(t.Context(), "job", holdfast.AtLeast(101*365*24*time.Hour))
	if err == nil || !strings.Contains(err.Error(), "keeps a name for at most 876000h0m0s") {
		t.Errorf("an AtLeast of 101 years: got %v, want the limit of 100 years", err)
	}
	if err := held.Err(); err != nil {
		t.Errorf("after a re-entry that was refused: got %v, want the lock held", err)
	}
}

// A caller that finds a name kept gets the time until when, from the store and from its
// process.
func TestBusyErrorOfAKeptName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, &holdfast.Options{Note: "ci-7"})
		end := time.Now().Add(least)
		must.Unlock(t, must.Lock(t, l, "job", holdfast.AtLeast(least)))
		taken := clock.TakenUntil(end) + " (kept by ci-7)"
		time.Sleep(3500 * time.Millisecond)
		go func() { must.Unlock(t, must.Lock(t, l, "job")) }() // the head of the queue
		synctest.Wait()
		for _, who := range []*holdfast.Locker{l, holdfast.New(store, nil)} {
			time.Sleep(100 * time.Millisecond)
			ended, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var busy *holdfast.BusyError
			_, err := who.TryLock(t.Context(), "job")
			if !errors.As(err, &busy) || !busy.Until.Equal(end) || busy.HeldFor != 0 || err.Error() != `lock "job" is `+taken {
				t.Errorf("TryLock: got %v, %+v, want that it is %s", err, busy, taken)
			}
			if _, err = who.Lock(ended, "job"); err == nil || err.Error() != `lock "job": context deadline exceeded while `+taken {
				t.Errorf("Lock: got %v, want that the context ended while %s", err, taken)
			}
		}
		time.Sleep(time.Until(end) + time.Second)
	})
}
