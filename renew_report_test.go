package holdfast_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// slowLog is a log handler that takes its time for each line.
type slowLog struct{ takes time.Duration }

func (h slowLog) Enabled(context.Context, slog.Level) bool { return true }
func (h slowLog) Handle(context.Context, slog.Record) error {
	time.Sleep(h.takes)
	return nil
}
func (h slowLog) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h slowLog) WithGroup(string) slog.Handler      { return h }

// slowOptions returns Options in which one way of reporting is slow.
func slowOptions(ttl, takes time.Duration) map[string]*holdfast.Options {
	return map[string]*holdfast.Options{
		"Observe": {TTL: ttl, Observe: func(context.Context, holdfast.Event) { time.Sleep(takes) }},
		"Logger":  {TTL: ttl, Logger: slog.New(slowLog{takes})},
	}
}

// Reports are much slower than renewals. No lock is lost that the store kept.
func TestSlowReportsLoseNoLock(t *testing.T) {
	for name, opts := range slowOptions(3*time.Second, 20*time.Millisecond) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, opts)
				const many = 2000
				locks := make(chan *holdfast.Lock, many)
				for i := range many {
					go func() {
						lock, err := l.Lock(t.Context(), fmt.Sprint("job ", i))
						if err != nil {
							t.Error(err)
						}
						locks <- lock
					}()
				}
				var held []*holdfast.Lock
				for range many {
					held = append(held, <-locks)
				}
				time.Sleep(15 * time.Second)
				lost := 0
				for _, lock := range held {
					if lock.Err() != nil {
						lost++
					}
				}
				if lost > 0 {
					t.Errorf("%d of %d locks were lost, and the store kept each", lost, many)
				}
				var wg sync.WaitGroup
				for _, lock := range held {
					wg.Go(func() { _ = lock.Unlock() })
				}
				wg.Wait()
				time.Sleep(time.Minute) // until all is reported
			})
		})
	}
}

// A lock that is gone ends for its holder when the store answers that, and not when earlier
// reports have ended.
func TestSlowReportsDelayNoLoss(t *testing.T) {
	for name, opts := range slowOptions(30*time.Second, 10*time.Second) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, opts)
				var kept []*holdfast.Lock
				for i := range 10 {
					kept = append(kept, must.Lock(t, l, fmt.Sprint("kept ", i)))
				}
				lock := must.Lock(t, l, "job")
				ctx := lock.Context(t.Context())
				store.Drop("job")
				start := time.Now()
				<-ctx.Done()
				between(t, "the holder learned of the loss after", time.Since(start), 0, 10*time.Second)
				_ = lock.Unlock()
				for _, k := range kept {
					must.Unlock(t, k)
				}
				time.Sleep(time.Hour) // until all is reported
			})
		})
	}
}

// An observer that never returns costs one goroutine for each lock, not one for
// each renewal.
func TestHungObserverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under atomic.Int64
		end := make(chan struct{})
		l := holdfast.New(faulty.New(), &holdfast.Options{TTL: 3 * time.Second, Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventRenew || e.Type == holdfast.EventCall && e.Op == holdfast.OpRenew {
				under.Add(1)
				<-end
			}
		}})
		locks := []*holdfast.Lock{must.Lock(t, l, "a"), must.Lock(t, l, "b"), must.Lock(t, l, "c")}
		time.Sleep(time.Hour)
		if n := under.Load(); n == 0 || n > 3 {
			t.Errorf("%d reports are under way, want one for each lock at most", n)
		}
		for _, lock := range locks {
			if err := lock.Err(); err != nil {
				t.Error(err)
			}
		}
		close(end)
		for _, lock := range locks {
			must.Unlock(t, lock)
		}
		synctest.Wait()
	})
}

// A grant is kept before it is reported: if an observer takes longer than the lease, the
// lock is still renewed.
func TestSlowReportsCostNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: 3 * time.Second, Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventCall && e.Op == holdfast.OpTry || e.Type == holdfast.EventAcquire {
				time.Sleep(time.Second)
			}
		}})
		mutexes := make([]*holdfast.Mutex, 20)
		for i := range mutexes {
			mutexes[i] = l.Mutex(fmt.Sprint("job ", i))
		}
		locks, err := holdfast.LockAll(t.Context(), mutexes)
		if err != nil {
			t.Fatal(err)
		}
		if got := store.Tries.Load(); got != 0 {
			t.Errorf("%d names were asked for once more, one by one", got)
		}
		must.UnlockAll(t, locks)
	})
}

// A waiter for one of several locks that are unlocked together does not wait
// for the reports of the others.
func TestSlowReportsDelayNoRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventRelease || e.Type == holdfast.EventCall && e.Op == holdfast.OpRelease {
				time.Sleep(time.Second)
			}
		}})
		mutexes := make([]*holdfast.Mutex, 20)
		for i := range mutexes {
			mutexes[i] = l.Mutex(fmt.Sprint("job ", i))
		}
		locks, err := holdfast.LockAll(t.Context(), mutexes)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for _, m := range mutexes {
			wg.Go(func() {
				lock, err := m.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				between(t, m.Name()+" was free after", time.Since(start), 0, 100*time.Millisecond)
				_ = lock.Unlock()
			})
		}
		synctest.Wait()
		must.UnlockAll(t, locks)
		wg.Wait()
	})
}
