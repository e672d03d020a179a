package holdfast_test

import (
	"context"
	"errors"
	"fmt"
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

// mostMargin returns how long before d a lock with AtMost(d) is lost, if the TTL is ttl.
func mostMargin(d time.Duration) time.Duration { return min(ttl, d) / 10 }

// wakes is how long after the end of a lease a waiter tries again, at most.
const wakes = 10 * time.Millisecond

// mostOf has times below, at and above the TTL.
var mostOf = []time.Duration{100 * time.Millisecond, ttl - 1, ttl, ttl + 1, ttl + ttl/7, 100 * time.Second}

// A lock is renewed until its end, and is lost one margin before it. At the end the store
// gives the name to another client. This holds for each kind of lock.
func TestAtMost(t *testing.T) {
	for kind, lock := range map[string]func(l *holdfast.Locker, opts ...holdfast.Option) (*holdfast.Lock, error){
		"mutex": func(l *holdfast.Locker, opts ...holdfast.Option) (*holdfast.Lock, error) {
			return l.Lock(context.Background(), "job", opts...)
		},
		"fair": func(l *holdfast.Locker, opts ...holdfast.Option) (*holdfast.Lock, error) {
			return l.FairMutex("job").Lock(context.Background(), opts...)
		},
		"write": func(l *holdfast.Locker, opts ...holdfast.Option) (*holdfast.Lock, error) {
			return l.RWMutex("job").Write.Lock(context.Background(), opts...)
		},
		"semaphore": func(l *holdfast.Locker, opts ...holdfast.Option) (*holdfast.Lock, error) {
			return l.Semaphore("job", 1).Acquire(context.Background(), opts...)
		},
	} {
		for _, d := range mostOf {
			t.Run(fmt.Sprint(kind, " ", d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := faulty.New()
					losses := make(chan holdfast.Event, 1)
					l := holdfast.New(store, &holdfast.Options{TTL: ttl, Observe: func(_ context.Context, e holdfast.Event) {
						if e.Late {
							t.Errorf("got a late renewal with %v left", e.Margin)
						}
						if e.Type == holdfast.EventLoss {
							losses <- e
						}
					}})
					other := holdfast.New(store, &holdfast.Options{TTL: ttl})
					began := time.Now()
					k, err := lock(l, holdfast.AtMost(d))
					if err != nil {
						t.Fatal(err)
					}
					if left := k.Remaining(); left > min(d, ttl)-mostMargin(d) {
						t.Errorf("Remaining: got %v, want %v at most", left, min(d, ttl)-mostMargin(d))
					}
					free := make(chan time.Duration)
					go func() {
						next, err := lock(other)
						free <- time.Since(began)
						if err == nil {
							err = next.Unlock()
						}
						if err != nil {
							t.Error(err)
						}
					}()
					<-k.Context(t.Context()).Done()
					if at := time.Since(began); at != d-mostMargin(d) {
						t.Errorf("its context ended after %v, want %v", at, d-mostMargin(d))
					}
					if e := <-losses; e.Reason != driver.ReasonExpired || !e.Leased || k.Remaining() != 0 {
						t.Errorf("got a loss for the reason %s, Leased %t, with %v left", e.Reason, e.Leased, k.Remaining())
					}
					between(t, "granted again after", <-free, d, d+wakes)
					if err := k.Unlock(); !errors.Is(err, holdfast.ErrLost) {
						t.Errorf("Unlock: got %v, want ErrLost", err)
					}
					must.Drain(t, l)
					must.Drain(t, other)
				})
			})
		}
	}
}

// No call asks for more than what is left when it arrives, also if many claims are renewed
// together. Renewals after the end is fixed do not come more often.
func TestAtMostOfManyLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100
		store := faulty.New()
		ends := make(map[string]time.Time)
		renewals := 0
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				store.Change(func() {
					for _, c := range cs {
						renewals++
						if end := ends[c.Name]; !end.IsZero() && time.Now().Add(c.TTL).After(end) {
							t.Errorf("%s: asked until %v after its end", c.Name, time.Now().Add(c.TTL).Sub(end))
						}
						if c.Fixed != cs[0].Fixed {
							t.Error("a claim that is only checked travels with one that is extended")
						}
					}
				})
				return store.Backend.Renew(ctx, cs)
			}
		})
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		began := time.Now()
		locks := make(holdfast.Locks, many)
		for i := range locks {
			name, d := fmt.Sprint("job ", i), time.Duration(i+2)*ttl/10
			store.Change(func() { ends[name] = time.Now().Add(d) })
			locks[i] = must.Lock(t, l, name, holdfast.AtMost(d))
		}
		unbounded := must.Lock(t, l, "unbounded")
		for i, k := range locks {
			<-k.Context(t.Context()).Done()
			d := time.Duration(i+2) * ttl / 10
			if at := time.Since(began); at != d-mostMargin(d) {
				t.Errorf("AtMost(%v): lost after %v, want %v", d, at, d-mostMargin(d))
			}
		}
		store.Change(func() {
			// A first renewal may come after a third of a period: so 5 of the first two
			// TTLs.
			if most := many * (many/10 + 2) * 4 / 2; renewals > most {
				t.Errorf("%d renewals, want %d at most", renewals, most)
			}
		})
		must.Unlock(t, unbounded)
		must.Drain(t, l)
	})
}

// A lock that is cut off before its end is lost with its lease, as without AtMost. If it is
// cut off in its last lease, it lasts to its end.
func TestAtMostCutOff(t *testing.T) {
	const d = 100 * time.Second
	for name, test := range map[string]struct {
		after  time.Duration
		lost   time.Duration // at most
		reason driver.Reason
	}{
		"before its end":    {10 * time.Second, 10*time.Second + ttl - ttl/10, driver.ReasonUnreachable},
		"in its last lease": {d - ttl/2, d - ttl/10, driver.ReasonExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l, other := holdfast.New(store, &holdfast.Options{TTL: ttl}), holdfast.New(store, nil)
				began := time.Now()
				k := must.Lock(t, l, "job", holdfast.AtMost(d))
				time.Sleep(test.after)
				store.Change(func() {
					store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
				})
				<-k.Context(t.Context()).Done()
				between(t, "lost after", time.Since(began), test.lost-ttl/3, test.lost)
				var lost *holdfast.LostError
				if err := k.Err(); !errors.As(err, &lost) || lost.Reason != test.reason {
					t.Errorf("got %v, want the reason %s", err, test.reason)
				}
				next := must.Lock(t, other, "job")
				between(t, "granted again after", time.Since(began), test.lost+ttl/10-ttl/3, test.lost+ttl/10+wakes)
				must.Unlock(t, next)
				must.Drain(t, l)
			})
		})
	}
}

// A store may grant less than the TTL, as a quorum does for the drift of clocks. That moves
// the end by the margin at most, and no renewal counts as late.
func TestAtMostOfAStoreThatGrantsLess(t *testing.T) {
	for _, margin := range []time.Duration{0, ttl / 10} {
		synctest.Test(t, func(t *testing.T) {
			const d = 100 * time.Second
			store := faulty.New()
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				answers, err := store.Backend.Renew(ctx, cs)
				for i := range answers {
					answers[i].ValidFor -= answers[i].ValidFor / 100
				}
				return answers, err
			}
			l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin, Observe: func(_ context.Context, e holdfast.Event) {
				if e.Late {
					t.Errorf("got a late renewal with %v left", e.Margin)
				}
			}})
			began := time.Now()
			k := must.Lock(t, l, "job", holdfast.AtMost(d))
			<-k.Context(t.Context()).Done()
			between(t, "lost after", time.Since(began), d-ttl/10-ttl/100, d-ttl/10)
			must.Drain(t, l)
		})
	}
}

// If the store keeps all locks of a client together, the lock is released at its end.
func TestAtMostOnASessionStore(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 31 * time.Second, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			store := newSessions()
			l := holdfast.New(capped{store}, nil)
			began := time.Now()
			k := must.Lock(t, l, "job", holdfast.AtMost(d))
			<-k.Context(t.Context()).Done()
			if at, want := time.Since(began), d-min(d/10, 3*time.Second); at != want {
				t.Errorf("AtMost(%v): lost after %v, want %v", d, at, want)
			}
			must.Drain(t, l)
			store.released(t, "job", d, d)
			if err := k.Unlock(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Unlock: got %v, want ErrLost", err)
			}
		})
	}
}

// A lock with AtMost is not passed on: the next goroutine would have only the rest of its
// time. A caller with AtMost does not get the hold of another goroutine either.
func TestAtMostIsNotPassedOn(t *testing.T) {
	for _, limited := range [][2]bool{{false, false}, {true, false}, {false, true}} {
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			l := holdfast.New(lacking{store, func(c *driver.Caps) { c.Fencing = false }}, &holdfast.Options{TTL: ttl})
			take := func(limit bool) *holdfast.Lock {
				if limit {
					return must.Lock(t, l, "job", holdfast.AtMost(time.Minute))
				}
				return must.Lock(t, l, "job")
			}
			lock := take(limited[0])
			done := make(chan struct{})
			go func() {
				defer close(done)
				must.Unlock(t, take(limited[1]))
			}()
			synctest.Wait()
			must.Unlock(t, lock)
			<-done
			if passedOn := store.Tries.Load() == 1; passedOn != (limited == [2]bool{}) {
				t.Errorf("limited: %v: passed on: %v", limited, passedOn)
			}
			must.Drain(t, l)
		})
	}
}

// A re-entry of a lock with AtMost does not move its end, and cannot set one.
func TestAtMostAndReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 100 * time.Second
		l := holdfast.New(memhold.New(), &holdfast.Options{TTL: ttl})
		owner := holdfast.WithOwner(t.Context())
		began := time.Now()
		lock := func(opts ...holdfast.Option) (*holdfast.Lock, error) { return l.Lock(owner, "job", opts...) }
		k, err := lock(holdfast.AtMost(d))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock(holdfast.AtMost(time.Second)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported", err)
		}
		for range 9 {
			time.Sleep(d / 10)
			if _, err := lock(); err != nil {
				t.Fatal(err)
			}
		}
		<-k.Context(t.Context()).Done()
		if at := time.Since(began); at != d-ttl/10 {
			t.Errorf("lost after %v, want %v", at, d-ttl/10)
		}
		must.Drain(t, l)
	})
}

// Each of several locks ends so long after its own grant. Their context ends with the first.
func TestAtMostOfSeveralLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 100 * time.Second
		l := holdfast.New(memhold.New(), &holdfast.Options{TTL: ttl})
		second := must.Lock(t, l, "2")
		go func() {
			time.Sleep(ttl)
			must.Unlock(t, second)
		}()
		began := time.Now()
		err := holdfast.DoAll(t.Context(), []*holdfast.Mutex{l.Mutex("1"), l.Mutex("2")}, func(ctx context.Context, locks holdfast.Locks) error {
			<-ctx.Done()
			if at := time.Since(began); at != d-ttl/10 || locks[1].Err() != nil {
				t.Errorf("the context ended after %v, and the other is %v", at, locks[1].Err())
			}
			<-locks[1].Context(t.Context()).Done()
			between(t, "the other was lost after", time.Since(began), ttl+d-ttl/10, ttl+d-ttl/10+wakes)
			return nil
		}, holdfast.AtMost(d))
		if !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		must.Drain(t, l)
	})
}

func TestAtMostIsRefused(t *testing.T) {
	synctest.Test(t, testAtMostIsRefused) // a lock of 10 ms would end on a busy machine
}

func testAtMostIsRefused(t *testing.T) {
	l := holdfast.New(memhold.New(), nil)
	for name, test := range map[string]struct {
		opts []holdfast.Option
		want string
	}{
		"negative":       {[]holdfast.Option{holdfast.AtMost(-1)}, "AtMost of -1ns is negative"},
		"none":           {[]holdfast.Option{holdfast.AtMost(0)}, "AtMost of 0s is too short"},
		"tiny":           {[]holdfast.Option{holdfast.AtMost(time.Millisecond)}, "at least 10ms"},
		"centuries":      {[]holdfast.Option{holdfast.AtMost(1<<63 - 1)}, "too long"},
		"longer AtLeast": {[]holdfast.Option{holdfast.AtMost(time.Second), holdfast.AtLeast(time.Minute)}, "AtLeast of 1m0s is longer than AtMost of 1s"},
		"Lease":          {[]holdfast.Option{holdfast.AtMost(time.Second), holdfast.FixedLease(time.Minute)}, "give only one of them"},
		"Lease before":   {[]holdfast.Option{holdfast.FixedLease(time.Minute), holdfast.AtMost(time.Second)}, "give only one of them"},
	} {
		if _, err := l.Lock(t.Context(), "job", test.opts...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	for _, d := range []time.Duration{10 * time.Millisecond, 100 * 365 * 24 * time.Hour} {
		must.Unlock(t, must.Lock(t, l, "job", holdfast.AtMost(d)))
	}
	must.Unlock(t, must.Lock(t, l, "job", holdfast.AtMost(time.Second), holdfast.AtLeast(time.Second)))
}
