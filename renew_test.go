package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

const (
	ttl    = 9 * time.Second
	margin = 900 * time.Millisecond
)

func TestRenewalEachThirdOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		start := time.Now()
		lock := must.Lock(t, l, "leader")
		for range 24 * 60 * 6 { // each 10 s for 24 h
			time.Sleep(10 * time.Second)
			hs := holders(t, store, "leader")
			if len(hs) != 1 || hs[0].Remaining < ttl*6/10 {
				t.Fatalf("after %v: got %+v, want the lease never below two thirds", time.Since(start), hs)
			}
		}
		if got, want := store.Renews.Load(), int64(24*60*60/3); got < want || got > want+2 {
			t.Errorf("got %d renewals in 24 h, want %d", got, want)
		}
		must.Unlock(t, lock)
		synctest.Wait() // a renewal may have been due at the same instant
		before := store.Renews.Load()
		time.Sleep(time.Hour)
		if got := store.Renews.Load(); got != before {
			t.Errorf("%d renewals after Unlock", got-before)
		}
		mustBeFree(t, store, "leader")
	})
}

func TestFixedLeaseEndsAndIsNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			before := holders(t, store, "job")
			answers, err := store.Backend.Renew(ctx, cs)
			if after := holders(t, store, "job"); after[0].Remaining != before[0].Remaining || !cs[0].Fixed {
				t.Errorf("a check of %+v changed the lease from %v to %v", cs[0], before[0].Remaining, after[0].Remaining)
			}
			return answers, err
		}
		l := holdfast.New(store, &holdfast.Options{TTL: time.Second})
		lock := must.Lock(t, l, "job", holdfast.FixedLease(time.Minute))
		ctx := lock.Context(t.Context())
		start := time.Now()
		<-ctx.Done()
		between(t, "the lock ended", time.Since(start), 59*time.Second, time.Minute)
		var lost *holdfast.LostError
		if !errors.As(context.Cause(ctx), &lost) || lost.Reason != driver.ReasonExpired {
			t.Errorf("got %v, want an expired lock", context.Cause(ctx))
		}
		if got := store.Renews.Load(); got == 0 {
			t.Error("got no check in a minute")
		}
		if hs := holders(t, store, "job"); len(hs) != 1 {
			t.Errorf("the lease was released before its holder said that it is done: %v", hs)
		}
		if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: got %v, want ErrLost", err)
		}
		synctest.Wait()
		mustBeFree(t, store, "job")
	})
}

// If a store stops answering, the holder's context ends a margin before the store can grant
// the lock to another client, in whatever way the calls fail.
func TestHolderLearnsBeforeTheLeaseEnds(t *testing.T) {
	var refused atomic.Bool
	failures := map[string]func(context.Context, []driver.Claim) ([]driver.Renewal, error){
		"hangs":    func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) },
		"errors":   func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, errors.New("reset") },
		"not sent": func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, driver.ErrNotExecuted },
		"refused": func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
			return nil, fmt.Errorf("%w: wrong password", driver.ErrRefused)
		},
		"refused, then hangs": func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) {
			if refused.CompareAndSwap(false, true) {
				return nil, fmt.Errorf("%w: wrong password", driver.ErrRefused)
			}
			return nil, faulty.Hang(ctx)
		},
		"short": func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, nil },
		"never ends": func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
			time.Sleep(time.Hour)
			return nil, nil
		},
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
				lock := must.Lock(t, l, "job")
				start := time.Now()
				store.Change(func() { store.OnRenew = fail })
				ctx := lock.Context(t.Context())
				<-ctx.Done()
				between(t, "told", time.Since(start), ttl-margin, ttl-margin)
				if hs := holders(t, store, "job"); len(hs) != 1 || hs[0].Remaining != margin {
					t.Errorf("got %+v, want the lease with %v left", hs, margin)
				}
				want := driver.ReasonUnreachable
				if strings.HasPrefix(name, "refused") {
					want = driver.ReasonRefused
				}
				var lost *holdfast.LostError
				if !errors.As(context.Cause(ctx), &lost) || lost.Reason != want {
					t.Errorf("got %v, want %s", context.Cause(ctx), want)
				}
				if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Err: got %v, want ErrLost", err)
				}
				if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Unlock: got %v, want ErrLost", err)
				}
				time.Sleep(time.Hour) // until the call that hangs has ended
			})
		})
	}
}

// The deadline counts from before the request: a late answer gives no longer lease, and one
// that comes too late gives none.
func TestLateAnswersGiveNoLongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			out, err := store.Backend.Try(ctx, c)
			time.Sleep(400 * time.Millisecond)
			return out, err
		}
		start := time.Now()
		lock := must.Lock(t, l, "job")
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
		})
		between(t, "Remaining", lock.Remaining(), 0, ttl-margin-400*time.Millisecond)
		<-lock.Context(t.Context()).Done()
		between(t, "told after the first request", time.Since(start), ttl-margin, ttl-margin)
		_ = lock.Unlock()
	})
}

func TestGrantThatIsNearlyOverIsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			out, err := store.Backend.Try(ctx, c)
			time.Sleep(8 * time.Second) // ignores its context, too
			return out, err
		}
		_, err := l.TryLock(t.Context(), "job")
		if err == nil {
			t.Fatal("a lock with most of its lease gone was handed out")
		}
		store.OnTry = nil
		synctest.Wait()
		mustBeFree(t, store, "job")
	})
}

// A failure that is shorter than the lease is no loss.
func TestRenewalIsRetriedUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
		lock := must.Lock(t, l, "job")
		for range 100 {
			store.Change(func() {
				store.OnRenew = func(context.Context, []driver.Claim) ([]driver.Renewal, error) { return nil, errors.New("reset") }
			})
			time.Sleep(ttl / 2)
			store.Change(func() { store.OnRenew = nil })
			time.Sleep(time.Second)
			if err := lock.Err(); err != nil {
				t.Fatalf("lost by a blip of half a lease: %v", err)
			}
		}
		must.Unlock(t, lock)
	})
}

func TestLossHasAReason(t *testing.T) {
	tests := []struct {
		want driver.Reason
		lose func(t *testing.T, store *faulty.Store)
	}{
		{driver.ReasonDeleted, func(_ *testing.T, store *faulty.Store) { store.Drop("job") }},
		{driver.ReasonForced, func(t *testing.T, store *faulty.Store) {
			hs := holders(t, store, "job")
			if len(hs) != 1 {
				t.Fatalf("got holders %v, want one", hs)
			}
			if err := store.ForceUnlock(t.Context(), "job", hs[0], "stuck since noon"); err != nil {
				t.Fatalf("ForceUnlock: %v", err)
			}
			if err := store.ForceUnlock(t.Context(), "job", hs[0], "again"); !errors.Is(err, driver.ErrGone) {
				t.Errorf("second ForceUnlock: got %v, want ErrGone", err)
			}
		}},
		{driver.ReasonNotOwner, func(t *testing.T, store *faulty.Store) {
			c := driver.Claim{Name: "job", Owner: "me", TTL: time.Minute, Count: 1, Tokens: 1}
			store.Change(func() {
				store.OnRenew = func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
					return []driver.Renewal{{Err: &driver.GoneError{Reason: driver.ReasonNotOwner}}}, nil
				}
			})
			if _, err := store.Backend.Try(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(string(tt.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, &holdfast.Options{TTL: ttl})
				lock := must.Lock(t, l, "job")
				ctx := lock.Context(t.Context())
				start := time.Now()
				tt.lose(t, store)
				<-ctx.Done()
				between(t, "told", time.Since(start), 0, ttl/3)
				for what, err := range map[string]error{"cause": context.Cause(ctx), "Err": lock.Err(), "Unlock": lock.Unlock()} {
					var lost *holdfast.LostError
					if !errors.As(err, &lost) || !errors.Is(err, holdfast.ErrLost) || lost.Reason != tt.want {
						t.Errorf("%s: got %v, want a loss: %s", what, err, tt.want)
					}
				}
			})
		})
	}
}

// After a loss, another goroutine of the process can have the lock as soon as the store
// would grant it: the queue does not delay that.
func TestLossLetsTheNextOfTheProcessIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		lost := must.Lock(t, l, "job")
		store.Drop("job")
		start := time.Now()
		next := must.Lock(t, l, "job")
		between(t, "the next got the lock", time.Since(start), 0, ttl/3)
		if next.Token() <= lost.Token() {
			t.Errorf("token %d is not larger than %d", next.Token(), lost.Token())
		}
		if err := lost.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock of the lost lock: got %v, want ErrLost", err)
		}
		if err := next.Err(); err != nil {
			t.Errorf("the next holder was disturbed: %v", err)
		}
		must.Unlock(t, next)
	})
}

// If one claim makes the store's code panic, only that lock is lost.
func TestPanickingRenewalCostsOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		locks := make([]*holdfast.Lock, 1000)
		for i := range locks {
			locks[i] = must.Lock(t, l, fmt.Sprintf("job:%d", i))
		}
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				if slices.ContainsFunc(cs, func(c driver.Claim) bool { return c.Name == "job:500" }) {
					panic("cannot renew this")
				}
				return store.Backend.Renew(ctx, cs)
			}
		})
		time.Sleep(10 * ttl)
		for i, k := range locks {
			err := k.Err()
			if i == 500 {
				var lost *holdfast.LostError
				if !errors.As(err, &lost) || lost.Reason != driver.ReasonUnreachable {
					t.Errorf("the one that panics: got %v, want a loss", err)
				}
				continue
			}
			if err != nil {
				t.Errorf("job:%d: %v", i, err)
			}
			must.Unlock(t, k)
		}
	})
}

func TestRenewalsTravelTogetherAndSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: 30 * time.Second})
		const n = 10_000
		locks := make([]*holdfast.Lock, n)
		for i := range locks {
			locks[i] = must.Lock(t, l, fmt.Sprintf("job:%d", i))
		}
		var mu sync.Mutex
		claims, largest := 0, 0
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				mu.Lock()
				claims += len(cs)
				largest = max(largest, len(cs))
				mu.Unlock()
				return store.Backend.Renew(ctx, cs)
			}
		})
		calls := store.Renews.Load()
		time.Sleep(30 * time.Second)
		calls = store.Renews.Load() - calls
		mu.Lock()
		defer mu.Unlock()
		if claims < 3*n*9/10 || claims > 3*n*11/10 {
			t.Errorf("%d claims renewed in one lease, want about %d", claims, 3*n)
		}
		if calls > 150 {
			t.Errorf("%d calls for %d renewals, want at most 150", calls, claims)
		}
		if largest > 500 {
			t.Errorf("a call carried %d claims, want at most 500", largest)
		}
		for _, k := range locks {
			must.Unlock(t, k)
		}
	})
}

// A renewal counts from before its request too, and keeps the margin.
func TestLateRenewalGivesNoLongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: ttl, Margin: margin})
		lock := must.Lock(t, l, "job")
		var mu sync.Mutex
		var renewed time.Time // when the only renewal that was answered began
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				mu.Lock()
				first := renewed.IsZero()
				if first {
					renewed = time.Now()
				}
				mu.Unlock()
				if !first {
					return nil, faulty.Hang(ctx)
				}
				answers, err := store.Backend.Renew(ctx, cs)
				time.Sleep(300 * time.Millisecond)
				return answers, err
			}
		})
		<-lock.Context(t.Context()).Done()
		mu.Lock()
		defer mu.Unlock()
		between(t, "told after the renewal began", time.Since(renewed), ttl-margin, ttl-margin)
		if hs := holders(t, store, "job"); len(hs) != 1 || hs[0].Remaining != margin {
			t.Errorf("got %+v, want the lease with %v left", hs, margin)
		}
		_ = lock.Unlock()
	})
}

// slowLog is a log handler that takes its time for each line.
type slowLog struct{ takes time.Duration }

func (h slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (h slowLog) Handle(context.Context, slog.Record) error {
	time.Sleep(h.takes)
	return nil
}

func (h slowLog) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h slowLog) WithGroup(string) slog.Handler { return h }

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

// The TTL and the margin of a Locker without Options.
const usualTTL, usualMargin = 30 * time.Second, 3 * time.Second

// underLock has the lines of docs/concepts.md: see TestConceptsOfThePage in
// internal/e2e/locktest.
func underLock(ctx context.Context, locker *holdfast.Locker, work func(context.Context, uint64) error) error {
	lock, err := locker.Lock(ctx, "stock:42") // waits for the lock until ctx ends
	if err != nil {
		return err // no lock, so no work
	}
	defer lock.Unlock()
	return work(lock.Context(ctx), lock.Token()) // this context ends when the lock is lost
}

// TestTimeline follows the steps of docs/concepts.md: grant, two renewals, a store that stops
// answering, loss, next holder, late write.
func TestTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, start := memhold.New(), time.Now()
		conn := store.Connect()
		var all []time.Duration // when a renewal succeeded
		mine := holdfast.New(conn, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventRenew && e.Err == nil {
				if all = append(all, time.Since(start)); len(all) == 2 {
					conn.Cut()
				}
			}
		}})
		var data fence.Guard
		write := func(token uint64) error { return data.Do("stock:42", token, func() error { return nil }) }
		var lost, granted time.Duration

		err := underLock(t.Context(), mine, func(ctx context.Context, token uint64) error {
			next := make(chan *holdfast.Lock, 1)
			go func() { // process B reaches the store
				lock, err := holdfast.New(store, nil).Lock(t.Context(), "stock:42")
				if err != nil {
					t.Error(err)
				}
				next <- lock
			}()
			<-ctx.Done()
			lost = time.Since(start)
			lock := <-next
			granted = time.Since(start)
			if lock.Token() <= token {
				t.Errorf("the next holder has token %d after %d", lock.Token(), token)
			}
			if err := write(lock.Token()); err != nil {
				t.Errorf("write of the next holder: %v", err)
			}
			if err := write(token); !errors.Is(err, fence.ErrStale) {
				t.Errorf("late write: got %v, want ErrStale", err)
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			return context.Cause(ctx)
		})

		var loss *holdfast.LostError
		if !errors.As(err, &loss) || loss.Reason != driver.ReasonUnreachable {
			t.Errorf("got %v, want a loss: %s", err, driver.ReasonUnreachable)
		}
		conn.Restore()
		must.Drain(t, mine)
		if len(all) != 2 {
			t.Fatalf("%d renewals succeeded, want 2", len(all))
		}
		between(t, "the first renewal", all[0], usualTTL/9-usualTTL/60, usualTTL/3)
		between(t, "the second renewal after the first", all[1]-all[0], usualTTL/3-usualTTL/60, usualTTL/3)
		between(t, "the loss after the last renewal", lost-all[1], usualTTL-usualMargin, usualTTL-usualMargin)
		between(t, "the next grant after the last renewal", granted-all[1], usualTTL, usualTTL+100*time.Millisecond)
	})
}

// The picture and the steps have the times that TestTimeline finds, for renewals at 10 s and
// 20 s.
func TestTimelineIsDrawn(t *testing.T) {
	last := 2 * usualTTL / 3
	for name, texts := range map[string][]string{
		"docs/images/timeline.zh.svg": {fmt.Sprintf(">%.0f 秒</text>", (last + usualTTL - usualMargin).Seconds()), fmt.Sprintf(">%.0f 秒</text>", (last + usualTTL).Seconds())},
		"docs/images/timeline.svg":    {fmt.Sprintf(">%.0f s</text>", (last + usualTTL - usualMargin).Seconds()), fmt.Sprintf(">%.0f s</text>", (last + usualTTL).Seconds())},
		"docs/concepts.md": {
			fmt.Sprintf("grants it for %.0f s", usualTTL.Seconds()),
			fmt.Sprintf("About every %.0f s", (usualTTL / 3).Seconds()),
			fmt.Sprintf("At %.0f s, A counts the lock as lost", (last + usualTTL - usualMargin).Seconds()),
			fmt.Sprintf("has %.0f s to stop", usualMargin.Seconds()),
			fmt.Sprintf("At %.0f s, the lease ends in the store", (last + usualTTL).Seconds()),
		},
	} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(file), text) {
				t.Errorf("%s does not have %q", name, text)
			}
		}
	}
}
