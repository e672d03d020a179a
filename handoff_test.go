package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// endless is a Handoff.For that never ends: only the tokens limit the hand-offs.
const endless = 1000 * time.Hour

// observedHold is what a goroutine of a queue found when it had the lock.
type observedHold struct {
	who   int
	token uint64
	owner string // in the store
}

// line lets n goroutines wait behind a holder, one after the other, and returns what each
// of them found. Each calls work while it holds.
func line(t *testing.T, l *holdfast.Locker, store admin.Source, n int, work func(i int, k *holdfast.Lock), opts ...holdfast.Option) []observedHold {
	t.Helper()
	first := must.Lock(t, l, "job")
	var holds []observedHold // the lock guards it
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			k := must.Lock(t, l, "job", opts...)
			holds = append(holds, observedHold{i, k.Token(), holders(t, store, "job")[0].Owner})
			if work != nil {
				work(i, k)
			}
			must.Unlock(t, k)
		})
		synctest.Wait()
	}
	must.Unlock(t, first)
	wg.Wait()
	return holds
}

// chain returns the locks of n goroutines that waited in a queue, each passed on by the one
// before. The last one is still held.
func chain(t *testing.T, l *holdfast.Locker, n int) []*holdfast.Lock {
	t.Helper()
	before := must.Lock(t, l, "job")
	got := make(chan *holdfast.Lock)
	for range n {
		go func() { got <- must.Lock(t, l, "job") }()
		synctest.Wait()
	}
	var locks []*holdfast.Lock
	for range n {
		must.Unlock(t, before)
		before = <-got
		locks = append(locks, before)
	}
	return locks
}

// lengths returns how many holders in a row had the same owner in the store.
func lengths(holds []observedHold) (ns []int) {
	for i, hold := range holds {
		if i == 0 || holds[i-1].owner != hold.owner {
			ns = append(ns, 0)
		}
		ns[len(ns)-1]++
	}
	return ns
}

// mustRise fails unless each token is larger than the one before.
func mustRise(t *testing.T, holds []observedHold) {
	t.Helper()
	for i := 1; i < len(holds); i++ {
		if holds[i].token <= holds[i-1].token {
			t.Fatalf("hold %d has token %d, the one before had %d", i, holds[i].token, holds[i-1].token)
		}
	}
}

// block has the first and the last token that a store reserved with one grant.
type block struct{ first, last uint64 }

// blocks records the tokens that a store reserves, by owner.
type blocks struct {
	mu sync.Mutex
	m  map[string]block
}

func recordBlocks(store *faulty.Store) *blocks {
	b := &blocks{m: make(map[string]block)}
	store.Change(func() {
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			if c.Tokens < 1 {
				return driver.Outcome{}, fmt.Errorf("%d tokens asked for: %w", c.Tokens, driver.ErrRefused)
			}
			out, err := store.Backend.Try(ctx, c)
			if err == nil && out.Granted {
				b.mu.Lock()
				b.m[c.Owner] = block{out.Token, out.Token + uint64(c.Tokens) - 1}
				b.mu.Unlock()
			}
			return out, err
		}
	})
	return b
}

func (b *blocks) of(owner string) block {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m[owner]
}

// mustContain fails unless each holder's token is one of those that were reserved for its
// lease.
func (b *blocks) mustContain(t *testing.T, holds []observedHold) {
	t.Helper()
	for i, hold := range holds {
		if own := b.of(hold.owner); hold.token < own.first || hold.token > own.last {
			t.Fatalf("hold %d has token %d, reserved were %d to %d", i, hold.token, own.first, own.last)
		}
	}
}

func TestHandoffNeedsNoStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		reserved := recordBlocks(store)
		l := holdfast.New(store, nil)
		holds := line(t, l, store, 200, nil)
		mustRise(t, holds)
		reserved.mustContain(t, holds)
		if got, want := lengths(holds), []int{65, 129, 6}; !slices.Equal(got, want) {
			t.Errorf("in the store one owner had it for %v holds, want %v", got, want)
		}
		if got := store.Tries.Load(); got != 4 {
			t.Errorf("the store was asked %d times, want 4", got)
		}
		for i, hold := range holds {
			if hold.who != i {
				t.Fatalf("hold %d went to number %d, want the order of arrival", i, hold.who)
			}
		}
		for i := 1; i < len(holds); i++ {
			if holds[i].owner == holds[i-1].owner && holds[i].token != holds[i-1].token+1 {
				t.Errorf("passed on token %d after %d, want the next one", holds[i].token, holds[i-1].token)
			}
		}
		mustBeFree(t, store, "job")
	})
}

// If processes pass locks on and compete with each other, no token comes twice, and each is
// larger than those before it, in whichever process.
func TestTokensRiseOverChainsAndProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTwoSteps(3) // other clients go first
		reserved := recordBlocks(store.Store)
		var holds []observedHold // the lock guards it
		var wg sync.WaitGroup
		for process, h := range []holdfast.Handoff{{}, {Max: 3}, {For: 3 * time.Millisecond}, {Max: -1}} {
			l := holdfast.New(store, &holdfast.Options{Handoff: h})
			for i := range 20 {
				wg.Go(func() {
					for range 10 {
						k := must.Lock(t, l, "job")
						holds = append(holds, observedHold{process, k.Token(), holders(t, store, "job")[0].Owner})
						if i%2 == 0 {
							time.Sleep(time.Millisecond)
						}
						must.Unlock(t, k)
					}
				})
			}
		}
		wg.Wait()
		mustRise(t, holds)
		reserved.mustContain(t, holds)
		handed, changes := 0, 0
		for i := 1; i < len(holds); i++ {
			if holds[i].owner == holds[i-1].owner {
				handed++
			}
			if holds[i].who != holds[i-1].who {
				changes++
			}
		}
		if len(holds) != 800 || handed < 100 || changes < 20 {
			t.Errorf("%d holds, %d passed on, %d from one process to another: want 800, and many of each", len(holds), handed, changes)
		}
		t.Logf("%d passed on, %d from one process to another", handed, changes)
	})
}

// However a lease ends that was passed on, the next holder in another process has a larger
// token than all that were reserved for the lease, used or not.
func TestTokenAfterAChain(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, store *faulty.Store, last *holdfast.Lock){
		"unlocked": func(t *testing.T, _ *faulty.Store, last *holdfast.Lock) { must.Unlock(t, last) },
		"cut short": func(t *testing.T, _ *faulty.Store, last *holdfast.Lock) {
			time.Sleep(time.Minute)
			must.Unlock(t, last)
		},
		"deleted": func(_ *testing.T, store *faulty.Store, _ *holdfast.Lock) { store.Drop("job") },
		"cut off": func(_ *testing.T, store *faulty.Store, last *holdfast.Lock) {
			store.Change(func() {
				store.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
				store.OnRelease = func(ctx context.Context, _ driver.Claim) error { return faulty.Hang(ctx) }
			})
			<-last.Context(context.Background()).Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				reserved := recordBlocks(store)
				l := holdfast.New(store, nil)
				locks := chain(t, l, 3)
				own := reserved.of(holders(t, store, "job")[0].Owner)
				last := locks[len(locks)-1]
				if own.last-own.first != 64 || last.Token() != own.first+2 {
					t.Fatalf("the third of a chain has token %d, reserved are %+v: want the third of 65", last.Token(), own)
				}
				end(t, store, last)
				next := must.Lock(t, holdfast.New(store.Backend, nil), "job")
				if next.Token() <= own.last {
					t.Errorf("the next one has token %d, up to %d were reserved before", next.Token(), own.last)
				}
				must.Unlock(t, next)
				_ = last.Unlock()
				drainNow(t, l)
			})
		})
	}
}

func TestHandoffBounds(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name  string
		bound holdfast.Handoff
		hold  time.Duration // of each holder
		want  []int         // holders from one grant to the next
	}{
		{"once", holdfast.Handoff{Max: 1}, 0, []int{2, 2, 2, 2, 2, 2}},
		{"three times", holdfast.Handoff{Max: 3, For: endless}, ms, []int{4, 4, 4}},
		{"for 35ms", holdfast.Handoff{For: 35 * ms}, 10 * ms, []int{4, 4, 4}},
		{"for 30ms", holdfast.Handoff{For: 30 * ms}, 10 * ms, []int{3, 3, 3, 3}},
		{"for 50ms by default", holdfast.Handoff{}, 10 * ms, []int{5, 5, 2}},
		{"never, by number", holdfast.Handoff{Max: -1}, 0, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{"never, by time", holdfast.Handoff{For: 1}, ms, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				reserved := recordBlocks(store)
				l := holdfast.New(store, &holdfast.Options{Handoff: tt.bound})
				holds := line(t, l, store, 12, func(int, *holdfast.Lock) { time.Sleep(tt.hold) })
				if got := lengths(holds); !slices.Equal(got, tt.want) {
					t.Errorf("in the store one owner had it for %v holds, want %v", got, tt.want)
				}
				if got, want := int(store.Tries.Load()), 1+len(tt.want); got != want {
					t.Errorf("the store was asked %d times, want %d", got, want)
				}
				block := uint64(max(tt.bound.Max, 0))
				if tt.bound.Max == 0 {
					block = 64
				}
				for _, hold := range holds {
					if own := reserved.of(hold.owner); own.last-own.first != block {
						t.Fatalf("reserved the tokens %d to %d, want %d beside the first", own.first, own.last, block)
					}
				}
			})
		})
	}
}

// After a block of tokens of which all were used, the next is twice as large, up to the
// limit. After another one, it is as large as the number that was used.
func TestBlockFollowsTheQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		bound int
		holds int
		slow  []int // the holders that keep the lock for longer than Handoff.For
		want  []int
	}{
		"by default":     {0, 9000, nil, []int{65, 129, 257, 513, 1025, 2049, 4097, 865}},
		"up to 200":      {200, 3100, nil, []int{65, 129, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 201, 92}},
		"fewer than 64":  {1000, 3100, []int{300}, []int{65, 129, 107, 107, 213, 425, 849, 1001, 204}},
		"none, and late": {0, 3100, []int{0}, []int{1, 65, 129, 257, 513, 1025, 1110}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				reserved := recordBlocks(store)
				l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: tt.bound, For: time.Minute}})
				holds := line(t, l, store, tt.holds, func(n int, _ *holdfast.Lock) {
					if slices.Contains(tt.slow, n) {
						time.Sleep(time.Minute)
					}
				})
				if got := lengths(holds); !slices.Equal(got, tt.want) {
					t.Errorf("in the store one owner had it for %v holds, want %v", got, tt.want)
				}
				reserved.mustContain(t, holds)
				mustRise(t, holds)
			})
		})
	}
}

// Handoff.For limits when a lock is passed on, and not how long a holder keeps it.
func TestHandoffDoesNotHurryTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		last := chain(t, holdfast.New(store, nil), 2)[1]
		ctx := last.Context(t.Context())
		time.Sleep(time.Hour)
		if err := errors.Join(last.Err(), ctx.Err()); err != nil {
			t.Errorf("after an hour: %v", err)
		}
		must.Unlock(t, last)
	})
}

func TestHandoffOptions(t *testing.T) {
	l := holdfast.New(memhold.New(), &holdfast.Options{Handoff: holdfast.Handoff{For: -time.Second}})
	if _, err := l.TryLock(t.Context(), "job"); err == nil || !strings.Contains(err.Error(), "handoff") {
		t.Errorf("For of -1s: got %v, want an error that names it", err)
	}
}

// A Max above the number of possible tokens must not become a small one.
func TestHandoffWithoutBound(t *testing.T) {
	for _, most := range []int{math.MaxInt, math.MaxInt - 1, 1 << 31, 1<<32 + 1, 1 << 53} {
		synctest.Test(t, func(t *testing.T) {
			store := faulty.New()
			reserved := recordBlocks(store)
			l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: most, For: endless}})
			if k, err := l.TryLock(t.Context(), "job"); err != nil {
				return // refused
			} else {
				must.Unlock(t, k)
			}
			holds := line(t, l, store, 100, nil)
			if t.Failed() {
				return
			}
			mustRise(t, holds)
			reserved.mustContain(t, holds)
			next := must.Lock(t, holdfast.New(store, nil), "job")
			if last := holds[len(holds)-1]; next.Token() <= last.token {
				t.Errorf("Max %d: the next one elsewhere has token %d, the last one here had %d", most, next.Token(), last.token)
			}
			must.Unlock(t, next)
		})
	}
}

// unfenced is a store without tokens.
type unfenced struct{ *memhold.Backend }

func (u unfenced) Info() driver.Info {
	info := u.Backend.Info()
	info.Caps.Fencing = false
	return info
}

func (u unfenced) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	out, err := u.Backend.Try(ctx, c)
	out.Token = 0
	return out, err
}

func TestHandoffWithoutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := unfenced{memhold.New()}
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: 64}})
		first := must.Lock(t, l, "job")
		owner := holders(t, store, "job")[0].Owner
		got := standing(t, l, 65)
		must.Unlock(t, first)
		for range 64 {
			k := <-got
			if now := holders(t, store, "job")[0].Owner; now != owner {
				t.Fatal("went back to the store before 64 had it")
			}
			must.Unlock(t, k)
		}
		last := <-got
		if now := holders(t, store, "job")[0].Owner; now == owner || last.Token() != 0 {
			t.Errorf("passed on 65 times, token %d; want 64 times and no token", last.Token())
		}
		must.Unlock(t, last)
		mustBeFree(t, store, "job")
	})
}

// Locks of other kinds, and with options that concern their holder alone, are not passed on.
func TestNeverPassedOn(t *testing.T) {
	take := map[string]func(l *holdfast.Locker) (*holdfast.Lock, error){
		"fair": func(l *holdfast.Locker) (*holdfast.Lock, error) { return l.FairMutex("job").Lock(context.Background()) },
		"write side": func(l *holdfast.Locker) (*holdfast.Lock, error) {
			return l.RWMutex("job").Write.Lock(context.Background())
		},
		"read side": func(l *holdfast.Locker) (*holdfast.Lock, error) {
			return l.RWMutex("job").Read.Lock(context.Background())
		},
		"semaphore": func(l *holdfast.Locker) (*holdfast.Lock, error) {
			return l.Semaphore("job", 1).Acquire(context.Background())
		},
		"lease": func(l *holdfast.Locker) (*holdfast.Lock, error) {
			return l.Lock(context.Background(), "job", holdfast.Lease(time.Minute))
		},
	}
	for name, lock := range take {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := unfenced{memhold.New()} // without tokens any lock could be passed on
				l := holdfast.New(store, nil)
				owners := make(map[string]int)
				var mu sync.Mutex // because readers hold together
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() {
						k, err := lock(l)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for _, h := range holders(t, store, "job") {
							owners[h.Owner]++
						}
						mu.Unlock()
						time.Sleep(time.Millisecond)
						must.Unlock(t, k)
					})
				}
				wg.Wait()
				if len(owners) != 10 {
					t.Errorf("10 locks had %d owners in the store, want one each", len(owners))
				}
			})
		})
	}
}

// A caller with the option Lease gets its own lease from the store, when it is first in the
// queue.
func TestLeaseInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { mustRise(t, leaseInTheLine(t, memhold.New())) })
	synctest.Test(t, func(t *testing.T) { leaseInTheLine(t, unfenced{memhold.New()}) })
}

func leaseInTheLine(t *testing.T, store interface {
	driver.Backend
	admin.Source
},
) []observedHold {
	l := holdfast.New(store, nil)
	first := must.Lock(t, l, "job")
	var holds []observedHold // the lock guards it
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() {
			var opts []holdfast.Option
			if i == 3 || i == 4 {
				opts = append(opts, holdfast.Lease(time.Minute))
			}
			k := must.Lock(t, l, "job", opts...)
			holds = append(holds, observedHold{i, k.Token(), holders(t, store, "job")[0].Owner})
			if left := holders(t, store, "job")[0].Remaining; (left > 30*time.Second) != (len(opts) > 0) {
				t.Errorf("number %d has a lease of %v", i, left)
			}
			must.Unlock(t, k)
		})
		synctest.Wait()
	}
	must.Unlock(t, first)
	wg.Wait()
	if got, want := lengths(holds), []int{3, 1, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("in the store one owner had it for %v holds, want %v", got, want)
	}
	for i, hold := range holds {
		if hold.who != i {
			t.Fatalf("holds %v, want the order of arrival", holds)
		}
	}
	return holds
}

// First come, first served, also if some of the waiters get the lock from the store.
func TestHandoffKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		elsewhere := holdfast.New(store, nil)
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: 3}})
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 10 {
				must.Unlock(t, must.Lock(t, elsewhere, "job"))
			}
		})
		holds := line(t, l, store, 100, func(int, *holdfast.Lock) { time.Sleep(time.Millisecond) })
		wg.Wait()
		for i, hold := range holds {
			if hold.who != i {
				t.Fatalf("hold %d went to number %d, want the order of arrival", i, hold.who)
			}
		}
		mustRise(t, holds)
	})
}

// Goroutines that want a lock repeatedly get it equally often. One may be left out for a
// while when it has no processor, but not repeatedly.
func TestHandoffIsFair(t *testing.T) {
	for _, h := range []holdfast.Handoff{{}, {Max: -1}} {
		for _, n := range []int{16, 1000} {
			best := 0.0
			for tries := 0; tries < 3 && best < 0.95; tries++ {
				synctest.Test(t, func(t *testing.T) { best = max(best, jain(shares(t, h, n))) })
			}
			if best < 0.95 {
				t.Errorf("%d goroutines, %+v: Jain's index is %.3f, want at least 0.95", n, h, best)
			}
		}
	}
}

// shares returns how often each of n goroutines gets a lock that they want repeatedly.
func shares(t *testing.T, h holdfast.Handoff, n int) []float64 {
	l := holdfast.New(memhold.New(), &holdfast.Options{Handoff: h})
	// The number is so large that it does not matter if one goroutine has no processor for a
	// while.
	counts, left := make([]float64, n), max(10*n, 8000) // the lock guards them
	first := must.Lock(t, l, "job")
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for done := false; !done; {
				k := must.Lock(t, l, "job")
				if done = left == 0; !done {
					left--
					counts[i]++
				}
				must.Unlock(t, k)
			}
		})
	}
	synctest.Wait()
	must.Unlock(t, first)
	wg.Wait()
	return counts
}

// jain returns 1 if all xs are equal, and 1/n if one has all.
func jain(xs []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range xs {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(xs)) * squares)
}

// A call tree may get a lock that is passed on, and re-enter it. What it releases goes to
// the store.
func TestHandoffToAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		give := chain(t, l, 1)[0]
		ctx := holdfast.WithOwner(t.Context())
		got := make(chan *holdfast.Lock)
		go func() {
			k, err := l.Lock(ctx, "job")
			if err != nil {
				t.Error(err)
			}
			got <- k
		}()
		synctest.Wait()
		owner := holders(t, store, "job")[0].Owner
		must.Unlock(t, give)
		k := <-got
		if k.Token() != give.Token()+1 {
			t.Errorf("token %d after %d, want the next: passed on", k.Token(), give.Token())
		}
		again, err := l.Lock(ctx, "job")
		if err != nil || again != k {
			t.Fatalf("the second Lock of the tree: got %p, %v, want the same lock %p", again, err, k)
		}
		if hs := holders(t, store, "job"); len(hs) != 1 || hs[0].Owner != owner || hs[0].Holds != 2 {
			t.Errorf("in the store: %+v, want two holds of %s", hs, owner)
		}
		go func() { got <- must.Lock(t, l, "job") }()
		synctest.Wait()
		must.Unlock(t, again)
		synctest.Wait()
		if k.Err() != nil || holders(t, store, "job")[0].Owner != owner {
			t.Error("the first Unlock of two gave the lock away")
		}
		must.Unlock(t, k)
		next := <-got
		if holders(t, store, "job")[0].Owner == owner || next.Token() <= k.Token() {
			t.Errorf("after a tree: token %d after %d, owner %s: want a grant of the store", next.Token(), k.Token(), owner)
		}
		must.Unlock(t, next)
	})
}

// LockAll and single locks, with hand-offs in between, do not deadlock.
func TestHandoffBesideLockAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		var handed atomic.Int32
		l := holdfast.New(store, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventAcquire && e.Err == nil && e.Attempts == 0 {
				handed.Add(1)
			}
		}})
		names := []string{"a", "b", "c"}
		inside := map[string]*atomic.Int32{"a": {}, "b": {}, "c": {}}
		use := func(k *holdfast.Lock) {
			if inside[k.Name()].Add(1) != 1 {
				t.Errorf("two hold %q", k.Name())
			}
			time.Sleep(10 * time.Microsecond)
			inside[k.Name()].Add(-1)
		}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				for range 30 {
					ks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex(names[i%3]), l.Mutex(names[(i+1)%3]), l.Mutex(names[(i+2)%3])})
					if err != nil {
						t.Error(err)
						return
					}
					for _, k := range ks {
						use(k)
					}
					if err := ks.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range 30 {
			wg.Go(func() {
				for range 30 {
					k := must.Lock(t, l, names[i%3])
					use(k)
					must.Unlock(t, k)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if handed.Load() < 100 {
			t.Errorf("of 1800 locks %d were passed on, want many", handed.Load())
		}
		for _, name := range names {
			mustBeFree(t, store, name)
		}
	})
}
