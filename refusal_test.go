package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// A waiter with RetryRefused goes on after a refusal of 10 minutes. It asks less and less
// often, and reports each refusal.
func TestRetryRefused(t *testing.T) {
	for _, refusal := range []error{driver.ErrDenied, driver.ErrUnable} {
		synctest.Test(t, func(t *testing.T) {
			store := memhold.New()
			conn := store.Connect()
			var log strings.Builder
			tries := 0
			l := holdfast.New(conn, &holdfast.Options{
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Observe: func(_ context.Context, e holdfast.Event) {
					if e.Type == holdfast.EventCall && e.Err != nil {
						tries++
					}
				},
			})
			must.Unlock(t, must.Lock(t, l, "job")) // the store has answered once

			denied := fmt.Errorf("WRONGPASS: %w, %w", refusal, driver.ErrNotExecuted)
			conn.Fail(denied)
			time.AfterFunc(10*time.Minute, conn.Restore)
			var pauses []time.Duration
			began := time.Now()
			lock, err := l.Lock(t.Context(), "job", holdfast.RetryRefused(func(err error, pause time.Duration) {
				if !errors.Is(err, denied) {
					t.Errorf("reported %v, want %v", err, denied)
				}
				pauses = append(pauses, pause)
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer must.Unlock(t, lock)
			between(t, "the lock after the repair", time.Since(began), 10*time.Minute, 10*time.Minute+5*time.Second)
			if len(pauses) != tries || tries < 120 || tries > 170 {
				t.Errorf("%d refusals reported for %d tries, want one each 3.75 to 5 s", len(pauses), tries)
			}
			for i := range pauses[:4] {
				between(t, "a pause", pauses[i], 180*time.Millisecond<<i, 250*time.Millisecond<<i)
			}
			if got := strings.Count(log.String(), "level=WARN"); got != tries {
				t.Errorf("%d lines in the log, want %d", got, tries)
			}
		})
	}
}

// What RetryRefused does not outlast is returned at once, and the error has the refusal.
func TestRetryRefusedEnds(t *testing.T) {
	second := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	forever := func(ctx context.Context) (context.Context, context.CancelFunc) { // longer than each case
		return context.WithTimeout(ctx, time.Hour)
	}
	for _, test := range []struct {
		name    string
		refusal error
		fresh   bool // the store has never answered
		limit   func(context.Context) (context.Context, context.CancelFunc)
		opts    []holdfast.Option
		want    error
		after   time.Duration
	}{
		{name: "never answered", refusal: driver.ErrDenied, fresh: true, limit: forever, want: driver.ErrDenied},
		{name: "never answered, but full", refusal: driver.ErrUnable, fresh: true, limit: second, want: context.DeadlineExceeded, after: time.Second},
		{name: "no such database", refusal: driver.ErrRefused, limit: forever, want: driver.ErrRefused},
		{name: "a name that the store cannot keep", refusal: driver.ErrInvalid, limit: forever, want: driver.ErrInvalid},
		{name: "another kind", refusal: errors.Join(driver.ErrDenied, driver.ErrMismatch), limit: forever, want: driver.ErrMismatch},
		{name: "the client is closed", refusal: errors.Join(driver.ErrDenied, driver.ErrClosed), limit: forever, want: driver.ErrClosed},
		{name: "one attempt", refusal: driver.ErrDenied, limit: forever, opts: []holdfast.Option{holdfast.Wait(0)}, want: driver.ErrDenied},
		{name: "Wait is over", refusal: driver.ErrDenied, limit: forever, opts: []holdfast.Option{holdfast.Wait(time.Second)}, want: driver.ErrDenied, after: time.Second},
		{name: "the context is over", refusal: driver.ErrUnable, limit: second, want: context.DeadlineExceeded, after: time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := memhold.New().Connect()
				l := holdfast.New(conn, nil)
				if !test.fresh {
					must.Unlock(t, must.Lock(t, l, "job"))
				}
				conn.Fail(errors.Join(test.refusal, driver.ErrNotExecuted))
				ctx, cancel := test.limit(t.Context())
				defer cancel()
				began := time.Now()
				defer must.Drain(t, l)
				_, err := l.Lock(ctx, "job", append(test.opts, holdfast.RetryRefused(nil))...)
				if !errors.Is(err, test.want) || !errors.Is(err, test.refusal) && !errors.Is(err, driver.ErrRefused) {
					t.Errorf("got %v, want %v and the refusal %v", err, test.want, test.refusal)
				}
				if took := time.Since(began); took != test.after {
					t.Errorf("it took %v, want %v", took, test.after)
				}
			})
		})
	}
	t.Run("LockAll", func(t *testing.T) {
		l := holdfast.New(memhold.New(), nil)
		_, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("a")}, holdfast.RetryRefused(nil))
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v, want ErrUnsupported", err)
		}
	})
}

// Each kind of call shows that the store accepts this client, also a LockAll.
func TestRetryRefusedAfterLockAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := memhold.New().Connect()
		l := holdfast.New(conn, nil)
		locks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("a"), l.Mutex("b")})
		if err != nil {
			t.Fatal(err)
		}
		conn.Fail(errors.Join(driver.ErrDenied, driver.ErrNotExecuted))
		time.AfterFunc(time.Second, conn.Restore)
		lock, err := l.Lock(t.Context(), "job", holdfast.RetryRefused(nil))
		if err != nil {
			t.Fatal(err)
		}
		must.Unlock(t, lock)
		if err := locks.Unlock(); err != nil {
			t.Fatal(err)
		}
	})
}

// The refusals of one call are one acquire: one wait begins, and one ends.
func TestRetryRefusedIsOneAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := memhold.New().Connect()
		counts := map[holdfast.EventType]int{}
		var last holdfast.Event
		l := holdfast.New(conn, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
			counts[e.Type]++
			if e.Type == holdfast.EventAcquire {
				last = e
			}
		}})
		must.Unlock(t, must.Lock(t, l, "job"))
		conn.Fail(errors.Join(driver.ErrDenied, driver.ErrNotExecuted))
		time.AfterFunc(time.Minute, conn.Restore)
		lock, err := l.Lock(t.Context(), "job", holdfast.RetryRefused(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer must.Unlock(t, lock)
		if counts[holdfast.EventWait] != 1 || counts[holdfast.EventAcquire] != 2 {
			t.Errorf("events: %v, want one wait, and an acquire for each of two calls", counts)
		}
		if last.Waited < time.Minute || !last.Blocked || last.Attempts < 10 {
			t.Errorf("the acquire says %+v, want the whole wait and all attempts", last)
		}
	})
}

// finalErrors are those that waiting cannot fix.
var finalErrors = map[string]error{
	"refused":     fmt.Errorf("%w: NOPERM", driver.ErrRefused),
	"mismatch":    fmt.Errorf("%w: a list", driver.ErrMismatch),
	"unsupported": fmt.Errorf("no such lock: %w", errors.ErrUnsupported),
}

// A refusal is what the caller has to know, also where it arrives after the
// caller's time is over.
func TestRefusalThatArrivesLate(t *testing.T) {
	short := func(parent context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(parent, 10*time.Millisecond)
	}
	for name, want := range finalErrors {
		for call, lock := range map[string]func(context.Context, *holdfast.Locker) error{
			"Wait": func(ctx context.Context, l *holdfast.Locker) error {
				_, err := l.Lock(ctx, "job", holdfast.Wait(10*time.Millisecond))
				return err
			},
			"TryLock": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				_, err := l.TryLock(ctx, "job")
				return err
			},
			"Lock": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				_, err := l.Lock(ctx, "job")
				return err
			},
			"fair": func(ctx context.Context, l *holdfast.Locker) error {
				_, err := l.FairMutex("job").Lock(ctx, holdfast.Wait(10*time.Millisecond))
				return err
			},
			"permit": func(ctx context.Context, l *holdfast.Locker) error {
				_, err := l.Semaphore("job", 1).Acquire(ctx, holdfast.Wait(10*time.Millisecond))
				return err
			},
			"LockAll": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("job"), l.Mutex("other")})
				return err
			},
			"LockAll under an owner": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(holdfast.WithOwner(ctx))
				defer cancel()
				_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex("job"), l.Mutex("other")})
				return err
			},
			"Set": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				_, err := l.CountDownLatch("job").TrySet(ctx, 1)
				return err
			},
			"Resize": func(ctx context.Context, l *holdfast.Locker) error {
				ctx, cancel := short(ctx)
				defer cancel()
				return l.Semaphore("job", 1).Resize(ctx, 2)
			},
		} {
			t.Run(call+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := holdfast.New(&refusing{Store: faulty.New(), err: want, after: 15 * time.Millisecond}, nil)
					start := time.Now()
					err := lock(t.Context(), l)
					if !errors.Is(err, want) {
						t.Errorf("got %v, want what the store said", err)
					}
					between(t, "answered", time.Since(start), 10*time.Millisecond, 35*time.Millisecond)
				})
			})
		}
	}
}

// refusing answers every call with an error, after a while: before ctx looks, as an
// answer does that is on its way when ctx ends.
type refusing struct {
	*faulty.Store
	err   error
	after time.Duration
}

func (r *refusing) Try(context.Context, driver.Claim) (driver.Outcome, error) {
	time.Sleep(r.after)
	return driver.Outcome{}, r.err
}

func (r *refusing) TryAll(_ context.Context, cs []driver.Claim) []driver.Attempt {
	time.Sleep(r.after)
	answers := make([]driver.Attempt, len(cs))
	for i := range answers {
		answers[i].Err = r.err
	}
	return answers
}

func (r *refusing) SetCount(context.Context, string, string, int64) (bool, error) {
	time.Sleep(r.after)
	return false, r.err
}

func (r *refusing) Resize(context.Context, string, int) error {
	time.Sleep(r.after)
	return r.err
}

// The same holds for a refusal after other errors, or after the lock was busy.
func TestRefusalAfterOtherAnswers(t *testing.T) {
	before := map[string]func() (driver.Outcome, error){
		"busy":     func() (driver.Outcome, error) { return driver.Outcome{Holder: "somebody"}, nil },
		"not sent": func() (driver.Outcome, error) { return driver.Outcome{}, driver.ErrNotExecuted },
	}
	for name, want := range finalErrors {
		for first, answer := range before {
			t.Run(first+", then "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := faulty.New()
					n := 0
					store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
						if n++; n == 1 {
							return answer()
						}
						time.Sleep(3 * time.Second)
						return driver.Outcome{}, want
					}
					l := holdfast.New(store, nil)
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					if _, err := l.Lock(ctx, "job"); !errors.Is(err, want) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("context over: got %v, want what the store said, and the context's error", err)
					}
					n = 0
					if _, err := l.Lock(t.Context(), "job", holdfast.Wait(2*time.Second)); !errors.Is(err, want) || errors.Is(err, holdfast.ErrBusy) {
						t.Errorf("Wait over: got %v, want what the store said", err)
					}
				})
			})
		}
	}
}

// The same holds for the refusal of a re-entry.
func TestRefusalOfAReentry(t *testing.T) {
	for name, want := range finalErrors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, nil)
				ctx := holdfast.WithOwner(t.Context())
				lock, err := l.Lock(ctx, "job")
				if err != nil {
					t.Fatal(err)
				}
				store.Change(func() {
					store.OnRenew = func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
						time.Sleep(15 * time.Millisecond)
						return nil, want
					}
				})
				for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
					if _, err := l.TryLock(ctx, "job", holdfast.Wait(wait)); !errors.Is(err, want) {
						t.Errorf("Wait(%v): got %v, want what the store said", wait, err)
					}
				}
				must.Unlock(t, lock)
				mustBeFree(t, store, "job")
			})
		})
	}
}

// shut makes a store answer as if the program had closed its client.
func shut(f *faulty.Store) {
	closed := fmt.Errorf("%w: %w: %w", driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted)
	f.Change(func() {
		f.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) { return driver.Outcome{}, closed }
		f.OnRelease = func(context.Context, driver.Claim) error { return closed }
		f.OnRenew = func(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			answers := make([]driver.Renewal, len(cs))
			for i := range answers {
				answers[i].Err = fmt.Errorf("%w: %w", &driver.GoneError{Reason: driver.ReasonClosed}, closed)
			}
			return answers, nil
		}
	})
}

// No call waits for a store whose client is closed.
func TestClosedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		one, two, lost := must.Lock(t, l, "one"), must.Lock(t, l, "two"), must.Lock(t, l, "lost")
		other := must.Lock(t, holdfast.New(store.Backend, nil), "other")
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Lock(t.Context(), "other")
			waiting <- err
		}()
		synctest.Wait()
		shut(store)

		start := time.Now()
		if err := one.Unlock(); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Unlock: got %v, want ErrClosed", err)
		}
		if err := (holdfast.Locks{two}).Unlock(); err != nil && !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Locks.Unlock: got %v", err)
		}
		for _, lock := range []func(context.Context, string, ...holdfast.Option) (*holdfast.Lock, error){l.Lock, l.TryLock} {
			if _, err := lock(t.Context(), "three"); !errors.Is(err, driver.ErrClosed) {
				t.Errorf("Lock: got %v, want ErrClosed", err)
			}
		}
		drainNow(t, l)
		between(t, "all of it", time.Since(start), 0, 100*time.Millisecond)
		if err := <-waiting; !errors.Is(err, driver.ErrClosed) {
			t.Errorf("who waited: got %v, want ErrClosed", err)
		}
		between(t, "who waited", time.Since(start), 0, 1100*time.Millisecond)

		<-lost.Context(t.Context()).Done()
		var loss *holdfast.LostError
		if !errors.As(lost.Err(), &loss) || loss.Reason != driver.ReasonClosed {
			t.Errorf("who held: got %v, want a loss with the reason closed", lost.Err())
		}
		between(t, "who held", time.Since(start), 0, 10*time.Second) // the next renewal
		_ = lost.Unlock()
		drainNow(t, l)
		must.Unlock(t, other)
		time.Sleep(time.Minute)
	})
}
