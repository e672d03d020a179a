package holdfast

import (
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/memhold"
)

// While a machine is suspended, the monotonic clock, which is the clock of the test, stands
// still, and the wall clock runs.
func TestSuspendedMachineAsksBeforeItTrusts(t *testing.T) {
	for name, test := range map[string]struct {
		lost bool
		opts []Option
	}{
		"still held":             {false, nil},
		"lost meanwhile":         {true, nil},
		"AtMost, still held":     {false, []Option{AtMost(time.Minute)}},
		"AtMost, lost meanwhile": {true, []Option{AtMost(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			lost := test.lost
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				store := memhold.New()
				l := New(store, nil)
				l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				lock, err := l.Lock(t.Context(), "job", test.opts...)
				if err != nil {
					t.Fatal(err)
				}
				if err := lock.Err(); err != nil {
					t.Fatal(err)
				}
				ahead.Store(int64(time.Hour))
				if lost {
					store.Drop("job")
				}
				if err := lock.Err(); !errors.Is(err, errSuspended) {
					t.Errorf("first check after an hour of suspension: got %v, want doubt", err)
				}
				synctest.Wait()
				switch err := lock.Err(); {
				case lost && !errors.Is(err, ErrLost):
					t.Errorf("after asking: got %v, want ErrLost", err)
				case !lost && err != nil:
					t.Errorf("after asking: got %v, want held", err)
				}
				_ = lock.Unlock()
			})
		})
	}
}

// Contexts end even if Err is not called.
func TestSuspensionIsNoticedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		store := memhold.New()
		l := New(store, nil)
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		ctx := lock.Context(t.Context())
		time.Sleep(1500 * time.Millisecond)
		store.Drop("job")
		ahead.Store(int64(time.Hour))
		start := time.Now()
		<-ctx.Done()
		if took := time.Since(start); took > renew.TickMost {
			t.Errorf("noticed after %v, want at most %v", took, renew.TickMost)
		}
		_ = lock.Unlock()
	})
}

// A step of the wall clock causes one renewal, and no loss.
func TestWallClockStepsAreHarmless(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var ahead atomic.Int64
			l := New(memhold.New(), nil)
			l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			lock, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				ahead.Store(int64(i%2) * int64(step))
				time.Sleep(20 * time.Second)
				if err := lock.Err(); err != nil {
					t.Fatalf("step of %v: %v", step, err)
				}
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A Lock that became unreachable is not renewed. The Locks of a LockAll are found together, when
// all of them are unreachable: also if some of them were unlocked before.
func TestDroppedLockIsNotRenewed(t *testing.T) {
	store := memhold.New()
	l := New(store, &Options{TTL: 300 * time.Millisecond})
	all := func(names ...string) Locks {
		var ms []*Mutex
		for _, name := range names {
			ms = append(ms, l.Mutex(name))
		}
		locks, err := LockAll(t.Context(), ms)
		if err != nil {
			t.Fatal(err)
		}
		return locks
	}
	kept := all("kept", "kept, too")[0]
	if err := all("all 1", "all 2", "all 3")[0].Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := all("some 1", "some 2", "some 3")[:2].Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	names := []string{"job", "all 1", "all 2", "all 3", "some 1", "some 2", "some 3"}
	deadline := time.Now().Add(10 * time.Second)
	for {
		runtime.GC()
		if records, err := store.Get(t.Context(), names...); err != nil || !slices.ContainsFunc(records, func(r admin.Record) bool { return r.Holders != 0 }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("still renewed")
		}
		runtime.Gosched()
	}
	if records, err := store.Get(t.Context(), "kept", "kept, too"); err != nil || records[0].Holders+records[1].Holders != 2 {
		t.Errorf("got %+v, error %v, want both held: one Lock is still reachable", records, err)
	}
	if err := kept.Unlock(); err != nil {
		t.Error(err)
	}
}

// logged are the lines of a log.
type logged chan string

// Write implements io.Writer.
func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A Lock with the option Lease may be dropped, so that it ends by itself: that is no error.
func TestDroppedLockWithALeaseIsNoError(t *testing.T) {
	lines := make(logged, 100)
	l := New(memhold.New(), &Options{Logger: slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if _, err := l.Lock(t.Context(), "job", Lease(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
		select {
		case line := <-lines:
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") {
				t.Errorf("got %s, want neither a warning nor an error", line)
			}
			if strings.Contains(line, "dropped without Unlock") {
				if err := l.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
		default:
		}
	}
	t.Fatal("it was not noticed")
}

// A Locker keeps no resources after its last lock has ended.
func TestIdleLockerKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(memhold.New(), nil)
		for range 100 {
			lock, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the bubble ends with a panic if a goroutine is left
		if n := queuesOf(l); n != 0 {
			t.Errorf("%d queues left", n)
		}
		time.Sleep(2 * renew.TickMost)
		synctest.Wait()
		if k := l.renewals.Find(func(renew.Item) bool { return true }); k != nil {
			t.Errorf("%q is still renewed", k.(*lease).claim.Name)
		}
	})
}

// A caller that checks a lock after its deadline gets the loss, even if no timer has fired
// yet. No later answer brings the lock back.
func TestDeadlineNeedsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(memhold.New(), nil)
		for name, look := range map[string]func(*Lock) bool{
			"Err":       func(k *Lock) bool { return errors.Is(k.Err(), ErrLost) },
			"Remaining": func(k *Lock) bool { return k.Remaining() == 0 },
			"Context":   func(k *Lock) bool { return k.Context(t.Context()).Err() != nil },
			"a late call": func(k *Lock) bool {
				_, held := k.hold.lease.Answered(l.clock.Read(), driver.Renewal{ValidFor: time.Hour})
				return !held
			},
		} {
			k, err := l.Lock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			k.hold.lease.mu.Lock()
			k.hold.lease.deadline = l.clock.Now()
			k.hold.lease.mu.Unlock()
			if !look(k) {
				t.Errorf("%s says that a lock past its deadline is held", name)
			}
			if err := k.Unlock(); !errors.Is(err, ErrLost) {
				t.Errorf("%s: Unlock: got %v, want ErrLost", name, err)
			}
		}
	})
}
