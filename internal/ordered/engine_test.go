package ordered_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

// Claims of one process are distinguished, although they have one session.
func TestClaimsOfOneProcessExclude(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		a, b := ps[0].claim(), ps[0].claim()
		first := ps[0].granted(a, true)
		ps[0].granted(b, false)
		ps[0].release(a)
		if next := ps[0].granted(b, true); next.Token <= first.Token {
			t.Errorf("token %d after %d", next.Token, first.Token)
		}
		if n := m.count("open"); n != 1 {
			t.Errorf("%d sessions, want 1", n)
		}
	})
}

// A Try whose answer is lost has made an entry. If it is repeated it makes no second one,
// and one Release ends the claim.
func TestLostAnswerOfTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ps := processes(t, 2)
		a := ps[0].claim()
		ps[0].lostTry(a, true)
		ps[1].granted(ps[1].claim(), false)
		ps[0].granted(a, true)
		ps[0].release(a)
	})
}

// A store may not know the order of an entry whose creation was not answered. Without the
// order there is no token, and so no grant.
func TestEntryWithoutOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		held, queued := ps[0].claim(), ps[1].claim()
		first := ps[0].granted(held, true)
		ps[1].granted(queued, false)
		ps[0].release(held)
		m.neverNamed = true
		if out := ps[1].granted(queued, true); out.Token <= first.Token {
			t.Errorf("token %d after %d", out.Token, first.Token)
		}
	})
}

// A claim that can never be granted leaves no entry, even if that is found out after the
// entry was made.
func TestLateMismatchLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		ps[0].granted(ps[0].claim(), true)
		before := m.keys("job")
		queued := ps[1].claim()
		ps[1].granted(queued, false)
		m.spoil(func(_ context.Context, call string) error {
			if call == "queue" {
				return driver.ErrMismatch
			}
			return nil
		}, nil)
		if _, err := ps[1].Try(t.Context(), queued); !errors.Is(err, driver.ErrMismatch) {
			t.Fatalf("got error %v, want ErrMismatch", err)
		}
		if after := m.keys("job"); after != before {
			t.Errorf("in the queue: %s, want %s", after, before)
		}
		// If the entry cannot be removed, the caller has to release it.
		queued = ps[1].claim()
		m.spoil(nil, nil)
		ps[1].granted(queued, false)
		m.spoil(func(_ context.Context, call string) error {
			switch call {
			case "queue":
				return driver.ErrMismatch
			case "remove":
				return driver.ErrNotExecuted
			}
			return nil
		}, nil)
		if _, err := ps[1].Try(t.Context(), queued); err == nil || errors.Is(err, driver.ErrNotExecuted) {
			t.Errorf("got error %v, want one that does not say that nothing was executed", err)
		}
	})
}

// The Engine forgets a claim that the store refuses, because no Release follows.
func TestRefusedClaimIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		refusal := driver.ErrNotExecuted
		m.spoil(func(_ context.Context, call string) error {
			if call == "enqueue" {
				return refusal
			}
			return nil
		}, nil)
		for range 3 {
			if _, err := ps[0].Try(t.Context(), ps[0].claim()); !errors.Is(err, refusal) {
				t.Fatalf("got error %v, want %v", err, refusal)
			}
		}
		if n := ps[0].Claims(); n != 0 {
			t.Errorf("%d claims after three that the store refused, want none", n)
		}
		lost := ps[0].claim()
		for _, refusal = range []error{errLost, driver.ErrNotExecuted} {
			if _, err := ps[0].Try(t.Context(), lost); !errors.Is(err, refusal) {
				t.Fatalf("got error %v, want %v", err, refusal)
			}
		}
		if n := ps[0].Claims(); n != 1 {
			t.Errorf("%d claims after a try without an answer, want one: there may be an entry", n)
		}
	})
}

// A TryLock of a name that is held writes nothing, so it excludes no other client.
func TestNoQueueWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		held, passing := ps[0].claim(), ps[1].claim()
		passing.NoQueue = true
		ps[0].granted(held, true)
		before := m.keys("job")
		if out := ps[1].granted(passing, false); out.Queued || out.Holder != "process0" {
			t.Errorf("got %+v, want no place, and who holds", out)
		}
		if after := m.keys("job"); after != before {
			t.Errorf("got entries %s, want %s", after, before)
		}
		if err := ps[1].Release(t.Context(), passing); !errors.Is(err, driver.ErrGone) || m.count("remove") != 0 {
			t.Errorf("Release: got error %v after %d calls, want ErrGone after none", err, m.count("remove"))
		}
		// Readers are granted beside others without an entry in the queue.
		reader := func() driver.Claim {
			c := ps[1].claim()
			c.Name, c.Mode, c.ReadWrite, c.NoQueue = "book", driver.Shared, true, true
			return c
		}
		ps[1].granted(reader(), true)
		ps[1].granted(reader(), true)
	})
}

// Entries of other programs are exclusive for every kind of claim, and no mismatch.
func TestOtherProgramsAreExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		for _, shape := range []func(*driver.Claim){
			func(*driver.Claim) {},
			func(c *driver.Claim) { c.ReadWrite, c.Mode = true, driver.Shared },
			func(c *driver.Claim) { c.Mode, c.Permits = driver.Permit, 3 },
		} {
			m.mu.Lock()
			m.add("job", ordered.Label{Kind: ordered.Mutex}, "peer", 0)
			m.mu.Unlock()
			c := p.claim()
			shape(&c)
			if out := p.granted(c, false); out.Holder != "peer" {
				t.Errorf("held by %q, want peer", out.Holder)
			}
			m.drop(func(e entry) bool { return e.Note == "peer" })
			p.granted(c, true)
			p.release(c)
		}
	})
}

// 20 % of the answers get lost, before or after the call was executed. There are never two
// holders, tokens rise, and no entry is left.
func TestLostAnswersUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 4)
		faults := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		lose := func(context.Context, string) error {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if faults.IntN(5) == 0 {
				return errLost
			}
			return nil
		}
		m.spoil(lose, lose)
		var inside atomic.Int32
		var token atomic.Uint64
		var wg sync.WaitGroup
		for _, p := range ps {
			for range 3 {
				wg.Go(func() {
					for range 30 {
						p.pass(func(out driver.Outcome) {
							if inside.Add(1) != 1 || out.Token <= token.Swap(out.Token) {
								t.Errorf("%d inside, with token %d", inside.Load(), out.Token)
							}
							time.Sleep(time.Millisecond)
							inside.Add(-1)
						})
					}
				})
			}
		}
		wg.Wait()
		m.spoil(nil, nil)
		m.empty(t)
		for _, p := range ps {
			if err := p.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A waiter costs the store one write, and then reads.
func TestWaitingWritesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		held, queued := ps[0].claim(), ps[1].claim()
		ps[0].granted(held, true)
		before := m.count("enqueue")
		for range 5 {
			ps[1].granted(queued, false)
		}
		ps[0].release(held)
		ps[1].granted(queued, true)
		if n := m.count("enqueue") - before; n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
	})
}

// A store that cannot watch returns an error from each call. A watch that has ended is
// begun again, and one that continues is not.
func TestWatchIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		ps[0].granted(ps[0].claim(), true)
		queued := ps[1].claim()
		last := ps[1].granted(queued, false)
		w := ps[1].Waiter(queued)
		defer w.Close()
		m.spoil(losing("watch"), nil)
		for range 3 {
			if _, err := w.Wait(t.Context(), last); !errors.Is(err, errLost) {
				t.Errorf("got error %v, want that of the store", err)
			}
		}
		m.spoil(nil, nil)
		for range 3 {
			waits(t, w, last, time.Second)
		}
		if n := m.count("watch"); n != 3+2 { // that of its own entry began while it waited
			t.Errorf("%d watches, want 5", n)
		}
	})
}
