package ordered_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A session that is idle is extended before it is used, and replaced if it has ended. A
// claim that began with half of the session's TTL was lost before its first renewal was
// answered: a margin took a third of that time, and each call a fiftieth.
func TestIdleSessionIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		for _, step := range []struct {
			idle            time.Duration
			opened, extends int
		}{{0, 1, 0}, {ttl / 4, 1, 0}, {ttl / 5, 1, 1}, {ttl * 2, 2, 2}} {
			time.Sleep(step.idle)
			c := p.claim()
			out := p.granted(c, true)
			if out.ValidFor < ttl*2/3 || out.ValidFor > ttl {
				t.Errorf("after %v: valid for %v, want at least two thirds of %v", step.idle, out.ValidFor, ttl)
			}
			p.release(c)
			if opened, extends := m.count("open"), m.count("extend"); opened != step.opened || extends != step.extends {
				t.Errorf("after %v: %d sessions and %d extensions, want %d and %d", step.idle, opened, extends, step.opened, step.extends)
			}
		}
	})
}

// A claim with a fixed end gets a session that lives as long as the claim.
func TestShortClaimIsValidToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ps := processes(t, 1)
		p := ps[0]
		p.release1(p.claim())
		time.Sleep(ttl / 3)
		c := p.claim()
		c.TTL = 8 * time.Second
		if out := p.granted(c, true); out.ValidFor != c.TTL {
			t.Errorf("valid for %v, want %v", out.ValidFor, c.TTL)
		}
	})
}

// When a session has ended, all of its claims are gone, listeners are notified, and the
// next claim gets another session. A renewal does not make the old claims again.
func TestSessionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		held, other := p.claim(), p.claim()
		other.Name = "other"
		p.granted(held, true)
		p.granted(other, true)
		var hints []uint64
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = p.Notify(ctx, p.name, func(seq uint64) { hints = append(hints, seq) }) })
		synctest.Wait()
		m.revoke()
		p.renewed(held, driver.ErrGone)
		p.renewed(other, driver.ErrGone)
		p.renewed(held, driver.ErrGone)
		p.over(held)
		cancel()
		wg.Wait()
		if len(hints) != 1 || hints[0] != 0 {
			t.Errorf("got hints %v, want one 0", hints)
		}
		m.empty(t)
		next := p.claim()
		p.granted(next, true)
		m.revoke()
		p.granted(p.claim(), true) // the store says so with the entry
		p.renewed(next, driver.ErrGone)
	})
}

// An entry that another program removed is a loss at the next renewal, and wakes its
// waiter.
func TestRemovedEntryIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		held, queued := ps[0].claim(), ps[1].claim()
		ps[0].granted(held, true)
		last := ps[1].granted(queued, false)
		w := ps[1].Waiter(queued)
		defer w.Close()
		woken := make(chan error)
		go func() {
			_, err := w.Wait(t.Context(), last)
			woken <- err
		}()
		synctest.Wait()
		m.drop(func(e entry) bool { return strings.HasPrefix(e.Note, "process1\n") })
		if err := <-woken; err != nil {
			t.Errorf("Wait: %v", err)
		}
		m.drop(func(e entry) bool { return strings.HasPrefix(e.Note, "process0\n") })
		if err := ps[0].renewed(held, driver.ErrGone).Err; !errors.As(err, new(*driver.GoneError)) {
			t.Errorf("got error %v, want one with a reason", err)
		}
		ps[1].granted(queued, true)
	})
}

// A store that has an entry, but leaves it out of the session's entries, loses no lock.
func TestEntryIsAskedForTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		held := ps[0].claim()
		ps[0].granted(held, true)
		m.mu.Lock()
		m.entries[0].session++ // of no session
		m.mu.Unlock()
		ps[0].renewed(held, nil)
	})
}

// A session that ends during a Try gives no grant: the claim is made again in the next one.
func TestSessionEndsDuringTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		other := p.claim()
		other.Name = "other"
		p.granted(other, true)
		var once sync.Once
		m.spoil(nil, func(_ context.Context, call string) error {
			if call == "enqueue" {
				once.Do(func() {
					m.revoke()
					p.renewed(other, driver.ErrGone)
				})
			}
			return nil
		})
		c := p.claim()
		p.granted(c, true)
		p.renewed(c, nil)
		if m.keys("job") == "" {
			t.Error("granted without an entry")
		}
	})
}

// After the machine was suspended, the store is asked before a claim is granted, because
// its clock went on.
func TestSuspendedSessionIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		var ahead time.Duration
		p.SetWall(func() time.Time { return time.Now().Add(ahead) })
		p.granted(p.claim(), true)
		ahead = ttl / 2
		other := p.claim()
		other.Name = "other"
		p.granted(other, true)
		if n := m.count("extend"); n != 1 {
			t.Errorf("the session was extended %d times, want once", n)
		}
	})
}

// A renewal of a claim whose first Try is under way does not find the claim, and forgets
// nothing.
func TestRenewDuringTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		other, c := p.claim(), p.claim()
		other.Name = "other"
		p.granted(other, true)
		m.spoil(func(_ context.Context, call string) error {
			if call == "enqueue" {
				p.renewed(c, driver.ErrGone)
			}
			return nil
		}, nil)
		p.granted(c, true)
		m.spoil(nil, nil)
		p.renewed(c, nil)
		p.release(c)
		m.empty(t)
	})
}
