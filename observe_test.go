package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/holdfast-go/holdfast/memhold"
)

// recorder keeps the events of a Locker.
type recorder struct {
	mu     sync.Mutex
	events []holdfast.Event
}

func (r *recorder) observe(_ context.Context, e holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// of returns the events of one kind.
func (r *recorder) of(kind holdfast.EventType) []holdfast.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e holdfast.Event) bool { return e.Type != kind })
}

func TestObserveWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		store := memhold.New()
		l := holdfast.New(store, &holdfast.Options{Observe: r.observe})
		elsewhere := must.Lock(t, holdfast.New(store, nil), "job")
		for range 2 { // the head waits for the store, and the other one for the head
			go func() { must.Unlock(t, must.Lock(t, l, "job")) }()
			synctest.Wait()
		}
		if n := len(r.of(holdfast.EventWait)); n != 2 {
			t.Errorf("%d of 2 said that they wait", n)
		}
		time.Sleep(10 * time.Second) // the waiter sleeps for a second at a time, and gets no message
		must.Unlock(t, elsewhere)
		synctest.Wait()
		if n := len(r.of(holdfast.EventWait)); n != 2 {
			t.Errorf("2 waiters said %d times that they wait", n)
		}
		for _, e := range r.of(holdfast.EventAcquire) {
			if !e.Blocked || e.Waited < 10*time.Second {
				t.Errorf("after waiting: got %+v", e)
			}
		}
		wakes := r.of(holdfast.EventWake)
		if len(wakes) < 10 || wakes[0].Notified || !wakes[len(wakes)-1].Notified {
			t.Errorf("got %d wake-ups, want about one a second and the last by the store: %+v", len(wakes), wakes)
		}
		must.Unlock(t, must.Lock(t, l, "free"))
		if all := r.of(holdfast.EventAcquire); all[len(all)-1].Blocked {
			t.Error("a lock that was free counts as waited for")
		}
	})
}

// A call whose reply was lost is repeated, and EventIndeterminate reports its result.
func TestObserveIndeterminate(t *testing.T) {
	lost := errors.New("reply lost")
	for _, c := range []struct {
		op      string
		answers bool // the store answers the next call
	}{{holdfast.OpTry, true}, {holdfast.OpTry, false}, {holdfast.OpRelease, true}} {
		synctest.Test(t, func(t *testing.T) {
			var r recorder
			store := faulty.New()
			l := holdfast.New(store, &holdfast.Options{Observe: r.observe, TTL: 3 * time.Second})
			calls := 0
			spoil := func() bool { calls++; return calls == 1 || !c.answers }
			if c.op == holdfast.OpTry {
				store.OnTry = func(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
					out, err := store.Backend.Try(ctx, claim)
					if spoil() {
						return driver.Outcome{}, lost
					}
					return out, err
				}
			}
			if c.op == holdfast.OpRelease || !c.answers {
				store.OnRelease = func(ctx context.Context, claim driver.Claim) error {
					err := store.Backend.Release(ctx, claim)
					if spoil() {
						return lost
					}
					return err
				}
			}
			lock, err := l.TryLock(t.Context(), "job")
			if err == nil {
				must.Unlock(t, lock)
			}
			time.Sleep(10 * time.Second)
			events := r.of(holdfast.EventIndeterminate)
			if len(events) != 1 || events[0].Op != c.op || events[0].Resolved != c.answers {
				t.Errorf("%s, answered later: %t: got %+v", c.op, c.answers, events)
			}
			if calls := r.of(holdfast.EventCall); len(calls) < 2 || !errors.Is(calls[0].Err, lost) && !errors.Is(calls[1].Err, lost) {
				t.Errorf("%s: got the calls %+v, want one without an answer", c.op, calls)
			}
		})
	}
}

// A lock with a fixed end that is over is distinguished from one that was lost.
func TestObserveFixedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		l := holdfast.New(memhold.New(), &holdfast.Options{Observe: r.observe})
		if _, err := l.Lock(t.Context(), "job", holdfast.FixedLease(time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if losses := r.of(holdfast.EventLoss); len(losses) != 1 || !losses[0].Leased || losses[0].Reason != driver.ReasonExpired {
			t.Errorf("got %+v, want the end of a fixed lease", losses)
		}
	})
}

// A program that counts holds gets an event for a Lock that was dropped, too.
func TestObserveDropped(t *testing.T) {
	var r recorder
	l := holdfast.New(memhold.New(), &holdfast.Options{Observe: r.observe})
	if _, err := l.Lock(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for len(r.of(holdfast.EventRelease)) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no event after 10s")
		}
		runtime.GC()
		runtime.Gosched()
	}
	if e := r.of(holdfast.EventRelease)[0]; e.Err == nil || e.Name != "job" {
		t.Errorf("got %+v, want a release with an error", e)
	}
	if err := l.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// If a program notices a loss and then drains the Locker, the loss has been observed when
// Drain returns: the program may end after that.
func TestDrainWaitsForTheLossToBeObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var losses atomic.Int64
		l := holdfast.New(memhold.New(), &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventLoss {
				losses.Add(1)
			}
		}})
		for i := range int64(3000) {
			lock, err := l.Lock(t.Context(), "job", holdfast.FixedLease(10*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				<-lock.Context(t.Context()).Done()
			} else {
				for lock.Err() == nil {
					time.Sleep(10 * time.Microsecond)
				}
			}
			if err := l.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := losses.Load(); got != i+1 {
				t.Fatalf("got %d losses after Drain, want %d", got, i+1)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// The results of a try and of a release without an answer are events of their own, each once.
func TestObserveIndeterminateTryAndRelease(t *testing.T) {
	lost := errors.New("reply lost")
	for _, unanswered := range []int{1, 100} { // releases: the first, or all that Unlock makes
		synctest.Test(t, func(t *testing.T) {
			var r recorder
			store := faulty.New()
			tries, releases := 0, 0
			store.OnTry = func(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
				out, err := store.Backend.Try(ctx, claim)
				if tries++; tries == 1 {
					return driver.Outcome{}, lost
				}
				return out, err
			}
			store.OnRelease = func(ctx context.Context, claim driver.Claim) error {
				err := store.Backend.Release(ctx, claim)
				if releases++; releases <= unanswered {
					return lost
				}
				return err
			}
			l := holdfast.New(store, &holdfast.Options{Observe: r.observe})
			lock := must.Lock(t, l, "job")
			if err := lock.Unlock(); err != nil {
				store.Change(func() { store.OnRelease = nil })
			}
			must.Drain(t, l)
			var got []string
			for _, e := range r.of(holdfast.EventIndeterminate) {
				got = append(got, fmt.Sprint(e.Op, " ", e.Resolved))
			}
			want := []string{holdfast.OpTry + " true", holdfast.OpRelease + " true"}
			if !slices.Equal(got, want) {
				t.Errorf("%d releases without an answer: got %q, want %q", unanswered, got, want)
			}
		})
	}
}

// A Logger that begins to log details during a wait gets how long the call has waited, and not how
// old the Locker is.
func TestWaitedAfterAChangeOfTheLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var level slog.LevelVar
		var log bytes.Buffer
		store := memhold.New()
		l := holdfast.New(store, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: &level}))})
		time.Sleep(time.Hour)
		held := must.Lock(t, holdfast.New(store, nil), "job")
		time.AfterFunc(3*time.Second, func() { level.Set(slog.LevelDebug) })
		time.AfterFunc(5*time.Second, func() { must.Unlock(t, held) })
		lock := must.Lock(t, l, "job")
		if got := log.String(); !strings.Contains(got, "acquired") || strings.Contains(got, "waited=1h") {
			t.Errorf("got the log %s, want a wait of some seconds", got)
		}
		must.Unlock(t, lock)
	})
}

// A lock with a fixed end that ends without Unlock may be meant so: it is no line for operators. A
// lock that was to be renewed is one.
func TestFixedEndIsNoErrorInTheLog(t *testing.T) {
	for _, fixed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			store := memhold.New()
			l := holdfast.New(store, &holdfast.Options{TTL: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			var opts []holdfast.Option
			if fixed {
				opts = append(opts, holdfast.FixedLease(time.Second))
			}
			lock := must.Lock(t, l, "job", opts...)
			if !fixed {
				store.Drop("job")
			}
			<-lock.Context(t.Context()).Done()
			synctest.Wait()
			if got := log.String(); strings.Contains(got, "level=ERROR") == fixed || fixed && got != "" {
				t.Errorf("fixed: %t: got the log %q", fixed, got)
			}
			if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("fixed: %t: got %v, want ErrLost", fixed, err)
			}
		})
	}
}

// The log has a line for a call that waits for a goroutine of its own Locker.
func TestWaitInTheProcessIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := holdfast.New(memhold.New(), &holdfast.Options{Note: "ci-7", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		lock := must.Lock(t, l, "job")
		if _, err := l.Lock(t.Context(), "job", holdfast.Wait(time.Second)); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		if got, want := log.String(), `msg=waiting lock=job backend=memory holder=ci-7 behind="a goroutine of this Locker"`; strings.Count(got, "msg=waiting") != 1 || !strings.Contains(got, want) {
			t.Errorf("got the log %s, want one line with %s", got, want)
		}
		must.Unlock(t, lock)
	})
}
