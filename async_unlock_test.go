package holdfast_test

import (
	"context"
	"errors"
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
			k := must.Lock(t, l, "job", holdfast.Lease(time.Second))
			time.Sleep(2 * time.Second)
			if err := k.Unlock(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
			must.Drain(t, l)
		})
	})
}
