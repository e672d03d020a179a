package holdfast_test

import (
	"context"
	"errors"
	"slices"
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

// If a lease is lost after several hand-offs, its present holder is notified. Earlier
// holders keep the result of their own Unlock, and the next waiter asks the store.
func TestLossInTheMiddleOfAChain(t *testing.T) {
	tests := []struct {
		name   string
		lose   func(s *faulty.Store)
		reason driver.Reason
		unlock func(s *faulty.Store) // before the next waiter can get the lock
		within time.Duration
	}{
		{"deleted", func(s *faulty.Store) { s.Drop("job") }, driver.ReasonDeleted, nil, 10 * time.Second},
		{"the store is unreachable", func(s *faulty.Store) {
			s.Change(func() {
				s.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
			})
		}, driver.ReasonUnreachable, nil, 27 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				l := holdfast.New(store, nil)
				locks := chain(t, l, 3)
				former, last := locks[1], locks[2]
				ctx := last.Context(t.Context())
				got := standing(t, l, 2)
				tries := store.Tries.Load()
				broken := time.Now()
				tt.lose(store)
				<-ctx.Done()
				between(t, "told after", time.Since(broken), 0, tt.within)

				var lost *holdfast.LostError
				if cause := context.Cause(ctx); !errors.As(cause, &lost) || lost.Reason != tt.reason {
					t.Errorf("the context ended with %v, want a loss: %s", cause, tt.reason)
				}
				if err := last.Err(); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("the present holder: got %v, want ErrLost", err)
				}
				for _, k := range []*holdfast.Lock{locks[0], former} {
					if err := k.Err(); !errors.Is(err, holdfast.ErrUnlocked) {
						t.Errorf("a former holder: got %v, want ErrUnlocked", err)
					}
				}
				next := <-got
				if store.Tries.Load() == tries || next.Token() <= last.Token() {
					t.Errorf("the next one has token %d after %d, %d tries: want a grant of the store", next.Token(), last.Token(), store.Tries.Load()-tries)
				}
				for _, stale := range []struct {
					k    *holdfast.Lock
					want error
				}{{former, holdfast.ErrUnlocked}, {last, holdfast.ErrLost}, {last, holdfast.ErrLost}} {
					if err := stale.k.Unlock(); !errors.Is(err, stale.want) {
						t.Errorf("Unlock of what is over: got %v, want %v", err, stale.want)
					}
				}
				synctest.Wait()
				if next.Err() != nil || len(holders(t, store, "job")) != 1 || len(got) != 0 {
					t.Errorf("a stale Unlock disturbed the next holder: %v", next.Err())
				}
				store.Change(func() { store.OnRenew = nil })
				must.Unlock(t, next)
				must.Unlock(t, <-got)
				synctest.Wait()
				mustBeFree(t, store, "job")
			})
		})
	}
}

// A second Unlock does not release the lock that another goroutine has by then.
func TestSecondUnlockAfterAHandoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		locks := chain(t, l, 2)
		got := standing(t, l, 2)
		former, present := locks[0], locks[1]
		owner := holders(t, store, "job")[0].Owner
		for range 3 {
			if err := former.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
				t.Errorf("the second Unlock: got %v, want ErrUnlocked", err)
			}
		}
		synctest.Wait()
		select {
		case k := <-got:
			t.Fatalf("the second Unlock let somebody in, with token %d beside %d", k.Token(), present.Token())
		default:
		}
		if hs := holders(t, store, "job"); present.Err() != nil || len(hs) != 1 || hs[0].Owner != owner {
			t.Errorf("the present holder: %v; in the store %+v", present.Err(), hs)
		}
		if former.Remaining() != 0 || former.Context(t.Context()).Err() == nil {
			t.Error("the former holder's lock is good for something")
		}
		must.Unlock(t, present)
		must.Unlock(t, <-got)
		must.Unlock(t, <-got)
		mustBeFree(t, store, "job")
	})
}

// If two goroutines unlock the same lock at the same time, one waiter gets it.
func TestUnlockTwiceAtOnceGivesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), &holdfast.Options{Handoff: holdfast.Handoff{Max: 1 << 16, For: endless}})
		k := chain(t, l, 1)[0]
		for range 500 {
			got := make(chan *holdfast.Lock, 2)
			for range 2 {
				go func() { got <- must.Lock(t, l, "job") }()
			}
			synctest.Wait()
			var unlocked atomic.Int32
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					switch err := k.Unlock(); {
					case err == nil:
						unlocked.Add(1)
					case !errors.Is(err, holdfast.ErrUnlocked):
						t.Errorf("Unlock: %v", err)
					}
				})
			}
			wg.Wait()
			next := <-got
			synctest.Wait()
			if len(got) != 0 || unlocked.Load() != 1 {
				t.Fatalf("%d of 3 Unlocks at once succeeded, %d more hold the lock", unlocked.Load(), len(got))
			}
			must.Unlock(t, next)
			k = <-got
		}
		must.Unlock(t, k)
	})
}

// An Unlock of a lock that has ended does not change the queue in which goroutines waited
// for it. That may be in use for another name by then.
func TestStaleUnlockOfAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: 3 * time.Second})
		stale := chain(t, l, 2)
		store.Drop("job")
		<-stale[1].Context(t.Context()).Done()
		synctest.Wait()
		other := must.Lock(t, l, "other")
		got := make(chan *holdfast.Lock, 1)
		go func() { got <- must.Lock(t, l, "other") }()
		synctest.Wait()
		for _, k := range stale {
			if k.Unlock() == nil {
				t.Error("Unlock of a lock that is over: got nil")
			}
		}
		synctest.Wait()
		if len(got) != 0 || other.Err() != nil {
			t.Fatalf("a stale Unlock let somebody in on another name")
		}
		must.Unlock(t, other)
		must.Unlock(t, <-got)
	})
}

// A lease that is passed on for a long time is renewed like a lock with one holder.
func TestChainIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: time.Second, Handoff: holdfast.Handoff{Max: 1000, For: endless}})
		start := time.Now()
		holds := line(t, l, store, 300, func(_ int, k *holdfast.Lock) {
			time.Sleep(100 * time.Millisecond)
			if err := k.Err(); err != nil {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
			if hs := holders(t, store, "job"); len(hs) != 1 {
				t.Errorf("in the store: %+v, want one holder", hs)
			}
		})
		if got, want := lengths(holds), []int{65, 129, 106}; !slices.Equal(got, want) {
			t.Errorf("in the store one owner had it for %v holds, want %v", got, want)
		}
		// One hand-off every third of a second, for half a minute.
		if n := store.Renews.Load(); n < 85 || n > 125 {
			t.Errorf("%d renewals in %v, want about 90", n, time.Since(start))
		}
		mustBeFree(t, store, "job")
	})
}

// A lease whose renewals fail is not passed on any more when most of it has passed.
func TestOldLeaseIsNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, &holdfast.Options{TTL: 10 * time.Second, Handoff: holdfast.Handoff{For: endless}})
		last := chain(t, l, 2)[1]
		store.Change(func() {
			store.OnRenew = func(context.Context, []driver.Claim) ([]driver.Renewal, error) {
				return nil, errors.New("unreachable")
			}
		})
		owner := holders(t, store, "job")[0].Owner
		got := standing(t, l, 2)
		time.Sleep(4 * time.Second)
		must.Unlock(t, last)
		next := <-got
		if holders(t, store, "job")[0].Owner != owner {
			t.Error("a lease with more than half of it left went back to the store")
		}
		time.Sleep(time.Second)
		must.Unlock(t, next)
		last = <-got
		if holders(t, store, "job")[0].Owner == owner || last.Remaining() < 8*time.Second {
			t.Errorf("a lease with less than half of it left was passed on: %v remain", last.Remaining())
		}
		must.Unlock(t, last)
	})
}

// The last goroutine of a queue releases the lock in the store.
func TestNothingStaysOfAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		last := chain(t, l, 5)[4]
		must.Unlock(t, last)
		mustBeFree(t, store, "job")
		renews := store.Renews.Load()
		time.Sleep(time.Hour)
		if got := store.Renews.Load(); got != renews {
			t.Errorf("%d renewals after the end of a chain", got-renews)
		}
	})
}
