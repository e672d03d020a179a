package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
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
			return l.Lock(context.Background(), "job", holdfast.FixedLease(time.Minute))
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

// A caller with the option FixedLease gets its own lease from the store, when it is first in the
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
				opts = append(opts, holdfast.FixedLease(time.Minute))
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

// A waiter that gives up is skipped.
func TestCancelledInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		l := holdfast.New(store, nil)
		held := chain(t, l, 1)[0]
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		for range 2 {
			go func() {
				_, err := l.Lock(ctx, "job")
				failed <- err
			}()
		}
		go func() {
			_, err := l.TryLock(t.Context(), "job", holdfast.Wait(10*time.Millisecond))
			failed <- err
		}()
		synctest.Wait()
		got := standing(t, l, 1)
		cancel()
		for range 2 {
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error", err)
			}
		}
		if err := <-failed; !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("after the limit: got %v, want ErrBusy", err)
		}
		tries := store.Tries.Load()
		must.Unlock(t, held)
		next := <-got
		if next.Token() != held.Token()+1 || store.Tries.Load() != tries {
			t.Errorf("token %d after %d: want the next one, passed on", next.Token(), held.Token())
		}
		must.Unlock(t, next)
		mustBeFree(t, store, "job")
	})
}

// occupied fails if two goroutines are inside at the same time.
type occupied struct{ atomic.Int32 }

func (o *occupied) visit(t *testing.T) {
	t.Helper()
	if o.Add(1) != 1 {
		t.Error("two hold the lock")
	}
	o.Add(-1)
}

// If a waiter gives up in the moment in which the lock is passed to it, it has the lock or
// it does not. If it does not, the waiter behind it gets the lock, or the store does.
func TestCancelledWhileBeingGiven(t *testing.T) {
	for _, behind := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			store := memhold.New()
			l := holdfast.New(store, nil)
			var inside occupied
			taken, declined, later := 0, 0, 0 // later is adjusted until both happen about equally often
			const rounds = 1000
			for round := range rounds {
				held := chain(t, l, 1)[0]
				ctx, cancel := context.WithCancel(t.Context())
				type answer struct {
					k   *holdfast.Lock
					err error
				}
				first := make(chan answer)
				go func() {
					k, err := l.Lock(ctx, "job")
					first <- answer{k, err}
				}()
				synctest.Wait()
				rest := make(chan uint64, behind)
				for range behind {
					go func() {
						k := must.Lock(t, l, "job")
						inside.visit(t)
						rest <- k.Token()
						must.Unlock(t, k)
					}()
					synctest.Wait()
				}
				if round%2 == 0 { // the waiter that gives up has not run yet when the lock comes
					cancel()
					must.Unlock(t, held)
				} else {
					atOnce(cancel, func() { must.Unlock(t, held) }, later)
				}
				a := <-first
				later = max(later-5, 0)
				last := held.Token()
				switch {
				case a.err == nil:
					taken++
					later += 10
					inside.visit(t)
					if last = a.k.Token(); last != held.Token()+1 {
						t.Errorf("passed on token %d after %d", last, held.Token())
					}
					must.Unlock(t, a.k)
				case !errors.Is(a.err, context.Canceled):
					t.Errorf("got %v, want the context's error", a.err)
				}
				for i := range behind {
					token := <-rest
					if i == 0 && a.err != nil && token > last+1 {
						declined++ // a token is missing in the sequence: it was passed to the waiter that gave up
					}
					if token <= last {
						t.Errorf("token %d after %d", token, last)
					}
					last = token
				}
				synctest.Wait()
				mustBeFree(t, store, "job")
			}
			if behind > 0 && declined == 0 {
				t.Errorf("%d behind: nobody gave the lock up when it was given", behind)
			}
			t.Logf("%d behind: of %d, %d had the lock; %d gave it up when it was theirs", behind, rounds, taken, declined)
		})
	}
}

// atOnce runs two functions as much at the same time as it can. With a larger later, the
// second one starts later.
func atOnce(a, b func(), later int) {
	var ready, start atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ready.Store(true); !start.Load(); {
			runtime.Gosched()
		}
		spin(200)
		a()
	}()
	for !ready.Load() {
		runtime.Gosched()
	}
	start.Store(true)
	spin(later)
	b()
	<-done
}

// spin uses the processor for a short time.
func spin(steps int) {
	var x atomic.Int64
	for range steps {
		x.Add(1)
	}
}

// TryLock does not wait, so no lock can be passed to it. If no other goroutine waits,
// Unlock has released the lock in the store when it returns.
func TestTryLockIsPassedNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := unfenced{memhold.New()}
		l := holdfast.New(store, nil)
		late := 0
		const rounds = 200
		for range rounds {
			held := must.Lock(t, l, "job")
			owner := holders(t, store, "job")[0].Owner
			refused := make(chan int)
			var begun atomic.Bool
			go func() { // tries until it has the lock, which no other goroutine wants
				for n := 0; ; n++ {
					begun.Store(n > 10)
					k, err := l.TryLock(t.Context(), "job")
					if err == nil {
						refused <- n
						must.Unlock(t, k)
						return
					}
				}
			}()
			for !begun.Load() {
				runtime.Gosched()
			}
			must.Unlock(t, held)
			hs := holders(t, store, "job")
			if len(hs) == 1 && hs[0].Owner == owner {
				late++
			}
			<-refused
			synctest.Wait()
		}
		if late > 0 {
			t.Errorf("in %d of %d rounds the name was still held after Unlock had returned, and nobody waited for it", late, rounds)
		}
	})
}

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

// burst is how long the goroutines of a process go first after a grant.
const burst = 5 * time.Millisecond

// twoSteps is a store that releases in two steps. It records the order and the times of its
// calls.
type twoSteps struct {
	*faulty.Store
	start time.Time

	mu     sync.Mutex
	log    []step
	finish func() (others int, err error) // the answer after the release
	begin  func()                         // called before the release
}

// step is one call of a store, by its name.
type step struct {
	what string
	at   time.Duration
}

func newTwoSteps(others int) *twoSteps {
	return &twoSteps{Store: faulty.New(), start: time.Now(), finish: func() (int, error) { return others, nil }}
}

func (s *twoSteps) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, step{what, time.Since(s.start)})
}

// since returns the calls since the last call of since, and the time from the first to the
// last of them.
func (s *twoSteps) since() (whats []string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range s.log {
		whats = append(whats, step.what)
		took = step.at - s.log[0].at
	}
	s.log = nil
	return whats, took
}

// answers sets what releases answer from now on, and how long that takes.
func (s *twoSteps) answers(others int, err error, after time.Duration) {
	s.set(func() {
		s.finish = func() (int, error) {
			time.Sleep(after)
			return others, err
		}
	})
}

func (s *twoSteps) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

func (s *twoSteps) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	s.note("try")
	return s.Store.Try(ctx, c)
}

func (s *twoSteps) Release(ctx context.Context, c driver.Claim) error {
	s.note("release")
	return s.Store.Release(ctx, c)
}

func (s *twoSteps) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	s.mu.Lock()
	begin, end := s.begin, s.finish
	s.mu.Unlock()
	if begin != nil {
		begin()
	}
	err := s.Backend.Release(ctx, c)
	if c.Quiet {
		s.note("quiet")
	}
	s.note("began")
	return func() (int, error) {
		others, spoilt := end()
		s.note("finished")
		return others, errors.Join(err, spoilt)
	}
}

func (s *twoSteps) ReleaseNow(ctx context.Context, c driver.Claim) (others int, err error) {
	return s.StartRelease(ctx, c)()
}

func (s *twoSteps) Wake(context.Context, driver.Claim) error {
	s.note("wake")
	return nil
}

var _ driver.Releaser = (*twoSteps)(nil)

// standing starts n goroutines that lock "job" with l, one after the other. It returns a
// channel with their locks.
func standing(t *testing.T, l *holdfast.Locker, n int) <-chan *holdfast.Lock {
	t.Helper()
	got := make(chan *holdfast.Lock)
	for range n {
		go func() { got <- must.Lock(t, l, "job") }()
		synctest.Wait()
	}
	return got
}

// The next goroutine asks as soon as the release is sent if no other client waits, after
// the answer if that is not known, and later still if others wait.
func TestReleaseInTwoSteps(t *testing.T) {
	const (
		ms = time.Millisecond
		us = time.Microsecond
	)
	tests := []struct {
		name   string
		others int           // how many other clients waited at the last release
		trip   time.Duration // the time of a round trip
		want   []string
		took   time.Duration // from the release to the try
	}{
		{"it is not known who waits elsewhere", -1, ms, []string{"began", "finished", "try"}, ms},
		{"nobody waits elsewhere", 0, ms, []string{"began", "try", "finished"}, ms},
		{"others wait, at once", 3, 0, []string{"began", "finished", "try"}, 3 * ms},
		{"many wait, at once", 1000, 0, []string{"began", "finished", "try"}, 5 * ms},
		{"another waits, near", 1, 10 * us, []string{"began", "finished", "try"}, 10*us + ms},
		{"others wait", 1, ms, []string{"began", "finished", "try"}, ms + 3*ms},
		{"others wait, far away", 1, 100 * ms, []string{"began", "finished", "try"}, 100*ms + 5*ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTwoSteps(-1)
				l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
				first := must.Lock(t, l, "job")
				got := standing(t, l, 3)
				store.answers(tt.others, nil, 0)
				must.Unlock(t, first)
				second := <-got
				store.answers(tt.others, nil, tt.trip)
				time.Sleep(burst)
				store.since()
				must.Unlock(t, second)
				third := <-got
				time.Sleep(burst)
				whats, took := store.since()
				if !slices.Equal(whats, tt.want) || took != tt.took {
					t.Errorf("got %v within %v, want %v within %v", whats, took, tt.want, tt.took)
				}
				must.Unlock(t, third)
				last := <-got
				time.Sleep(burst)
				store.since()
				must.Unlock(t, last)
				if whats, _ := store.since(); !slices.Equal(whats, []string{"began", "finished"}) {
					t.Errorf("with nobody behind: got %v, want a release", whats)
				}
			})
		})
	}
}

// If it is not known whether other clients wait, this process yields after Handoff.For. The
// time to the next yield doubles while no client uses one.
func TestOthersMayWait(t *testing.T) {
	const trip, hold = time.Millisecond, 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		store := newTwoSteps(-1)
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
		k := must.Lock(t, l, "job")
		got := standing(t, l, 90)
		store.answers(-1, nil, trip)
		next := func() (yielded bool) {
			time.Sleep(hold)
			released := time.Now()
			must.Unlock(t, k)
			k = <-got
			took := time.Since(released)
			if took != trip && took != trip+3*trip {
				t.Fatalf("asks after %v", took)
			}
			return took > trip
		}
		yields := func(holds int) (after []int) {
			for i := range holds {
				if next() {
					after = append(after, i)
				}
			}
			return after
		}
		if got, want := yields(80), []int{2, 7, 17, 37, 57, 77}; !slices.Equal(got, want) { // after 50, 100, 200 and 400 ms
			t.Errorf("this process yielded after the holds %v, want after %v", got, want)
		}

		elsewhere := holdfast.New(store.Backend, nil)
		go func() {
			k := must.Lock(t, elsewhere, "job")
			time.Sleep(hold)
			must.Unlock(t, k)
		}()
		synctest.Wait()
		must.Unlock(t, k)
		k = <-got
		if got, want := yields(8), []int{2, 7}; !slices.Equal(got, want) {
			t.Errorf("after a yield that was used, this process yielded after the holds %v, want after %v", got, want)
		}
		must.Unlock(t, k)
		must.Unlock(t, <-got)
	})
}

// releaseCounter is a store that reports at once how many other clients wait.
type releaseCounter struct {
	*twoSteps
	others  int
	waiters int
	turn    bool // Waiters say at once that it is the client's turn
}

func (s *releaseCounter) Waiter(c driver.Claim) driver.Waiter {
	s.waiters++
	if s.turn {
		return nextInTurn{}
	}
	return s.twoSteps.Waiter(c)
}

// nextInTurn is a Waiter of a client whose turn it is.
type nextInTurn struct{}

func (nextInTurn) Wait(context.Context, driver.Outcome) (driver.Outcome, error) {
	return driver.Outcome{Turn: true}, nil
}

func (nextInTurn) Close() {}

func (s *releaseCounter) StartRelease(ctx context.Context, c driver.Claim) func() (int, error) {
	err := s.Release(ctx, c)
	return func() (int, error) { return s.others, err }
}

func (s *releaseCounter) ReleaseNow(ctx context.Context, c driver.Claim) (int, error) {
	return s.others, s.Release(ctx, c)
}

// A client that has just released a lock yields to other clients before it takes the lock
// again, also if no other goroutine of its process waited.
func TestOthersGoFirstWithoutALocalQueue(t *testing.T) {
	tests := []struct {
		name   string
		others int
		hold   time.Duration
		pause  time.Duration // after the release
		lock   func(l *holdfast.Locker) (*holdfast.Lock, error)
		want   time.Duration // until it asks
		hears  int           // how often it begins to listen
		turn   bool          // the others have had the lock meanwhile
	}{
		{"others wait", 2, 0, 0, lockJob, 2 * time.Millisecond, 1, false},
		{"others waited, and had the lock", 2, 0, 0, lockJob, 0, 1, true},
		{"others waited some time ago", 2, 0, time.Second, lockJob, 0, 0, false},
		{"nobody waits", 0, time.Second, 0, lockJob, 0, 0, false},
		{"it is not known", -1, 0, 0, lockJob, 0, 0, false},
		{"it is not known, and it was held for long", -1, 50 * time.Millisecond, 0, lockJob, 200 * time.Microsecond, 0, false},
		{"others wait, and it does not", 2, 0, 0, func(l *holdfast.Locker) (*holdfast.Lock, error) {
			return l.TryLock(context.Background(), "job")
		}, 0, 0, false},
		{"others wait, and it has less time", 2, 0, 0, func(l *holdfast.Locker) (*holdfast.Lock, error) {
			return l.TryLock(context.Background(), "job", holdfast.Wait(100*time.Microsecond))
		}, 100 * time.Microsecond, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &releaseCounter{newTwoSteps(-1), tt.others, 0, tt.turn}
				l := holdfast.New(store, nil)
				k := must.Lock(t, l, "job")
				time.Sleep(tt.hold)
				must.Unlock(t, k)
				time.Sleep(tt.pause)
				start := time.Now()
				k, err := tt.lock(l)
				if err != nil || time.Since(start) != tt.want {
					t.Fatalf("asks after %v (error %v), want after %v", time.Since(start), err, tt.want)
				}
				if store.waiters != tt.hears {
					t.Errorf("begins to listen %d times, want %d", store.waiters, tt.hears)
				}
				must.Unlock(t, k)
			})
		})
	}
}

func lockJob(l *holdfast.Locker) (*holdfast.Lock, error) { return l.Lock(context.Background(), "job") }

// Other clients get the lock after a release, if they are known to wait.
func TestOthersGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTwoSteps(1)
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: 2}})
		elsewhere := holdfast.New(store.Backend, nil)
		var order []string // the lock guards it
		var wg sync.WaitGroup
		first := must.Lock(t, l, "job")
		wg.Go(func() {
			for range 3 {
				k := must.Lock(t, elsewhere, "job")
				order = append(order, "elsewhere")
				must.Unlock(t, k)
			}
		})
		synctest.Wait()
		for range 9 {
			wg.Go(func() {
				k := must.Lock(t, l, "job")
				order = append(order, "here")
				time.Sleep(burst) // so that the next client waits again, and this process goes first no longer
				must.Unlock(t, k)
			})
			synctest.Wait()
		}
		must.Unlock(t, first)
		wg.Wait()
		var want []string
		for range 3 { // the other client asks again at once, while the next goroutine here still yields
			want = append(want, "elsewhere")
		}
		for range 9 {
			want = append(want, "here")
		}
		if !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

// However the release ends, the next goroutine gets the lock.
func TestReleaseInTwoStepsGoesWrong(t *testing.T) {
	errLost := errors.New("connection reset")
	gone := &driver.GoneError{Reason: driver.ReasonDeleted}
	tests := []struct {
		name   string
		break_ func(s *twoSteps)
		unlock func(err error, panicked any) bool
		within time.Duration // until the next goroutine has the lock
	}{
		{
			"the answer is lost", func(s *twoSteps) { s.answers(0, errLost, 0) },
			func(err error, p any) bool { return err == nil && p == nil }, time.Second,
		},
		{
			"it was deleted before", func(s *twoSteps) { s.answers(0, gone, 0) },
			func(err error, p any) bool { return errors.Is(err, holdfast.ErrLost) && p == nil }, 0,
		},
		{"nothing is answered any more", func(s *twoSteps) {
			s.answers(0, errLost, time.Second)
			s.Change(func() { s.OnRelease = func(ctx context.Context, _ driver.Claim) error { return faulty.Hang(ctx) } })
		}, func(err error, p any) bool { return err != nil && !errors.Is(err, holdfast.ErrLost) && p == nil }, 4 * time.Second},
		{
			"the answer panics", func(s *twoSteps) { s.set(func() { s.finish = func() (int, error) { panic("finish") } }) },
			func(_ error, p any) bool { return p == "finish" }, 0,
		},
		{
			"the call panics", func(s *twoSteps) { s.set(func() { s.begin = func() { panic("begin") } }) },
			func(_ error, p any) bool { return p == "begin" }, 31 * time.Second,
		},
	}
	for _, tt := range tests {
		for _, others := range []int{-1, 0, 1} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newTwoSteps(others)
					l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
					first := must.Lock(t, l, "job")
					got := standing(t, l, 2)
					must.Unlock(t, first)
					second := <-got
					tt.break_(store)
					start := time.Now()
					err, panicked := unlockOrPanic(second)
					if !tt.unlock(err, panicked) {
						t.Errorf("others %d: Unlock: got %v, panic %v", others, err, panicked)
					}
					third := <-got
					between(t, "the next one has the lock after", time.Since(start), 0, tt.within+5*time.Millisecond)
					if third.Token() <= second.Token() || second.Err() == nil || third.Err() != nil {
						t.Errorf("token %d after %d; the former %v, the present %v", third.Token(), second.Token(), second.Err(), third.Err())
					}
					store.set(func() { store.begin, store.finish = nil, func() (int, error) { return 0, nil } })
					store.Change(func() { store.OnRelease = nil })
					must.Unlock(t, third)
					if err := l.Drain(t.Context()); err != nil {
						t.Error(err)
					}
					mustBeFree(t, store, "job")
				})
			})
		}
	}
}

// slowBatch is a store that answers the release of one name of a batch, and not that of the
// others.
type slowBatch struct {
	*faulty.Store
	answered string
}

func (s *slowBatch) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	for i, c := range cs {
		if errs[i] = s.Backend.Release(ctx, c); c.Name != s.answered {
			errs[i] = errors.New("connection reset")
		}
	}
	return errs
}

// A waiter for one of several locks does not wait for the results of the others.
func TestUnlockOfSeveralLetsEachOneIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowBatch{faulty.New(), "job"}
		store.OnRelease = func(ctx context.Context, c driver.Claim) error {
			if c.Name == "job" {
				return store.Backend.Release(ctx, c)
			}
			return faulty.Hang(ctx)
		}
		l := holdfast.New(store, nil)
		ks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("job"), l.Mutex("other")})
		if err != nil {
			t.Fatal(err)
		}
		got := standing(t, l, 1)
		start := time.Now()
		unlocked := make(chan error, 1)
		go func() { unlocked <- ks.Unlock() }()
		k := <-got
		if took := time.Since(start); took > time.Millisecond {
			t.Errorf("the one behind has the lock after %v, want at once", took)
		}
		if err := <-unlocked; err == nil {
			t.Error("Unlock of what was never answered: got nil")
		}
		store.Change(func() { store.OnRelease = nil })
		must.Unlock(t, k)
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func unlockOrPanic(k *holdfast.Lock) (err error, panicked any) { //nolint:staticcheck // the panic comes after the error
	defer func() { panicked = recover() }()
	return k.Unlock(), nil
}
