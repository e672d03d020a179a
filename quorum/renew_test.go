package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func drop(c *cluster, nodes ...int) {
	for _, i := range nodes {
		c.members[i].store.Drop("job")
	}
}

func TestRenewNeedsAMajorityThatNeverLostIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		a := c.held()
		time.Sleep(ttl / 3)
		drop(c, 0)
		if got, want := c.mustRenew(c.Backend, a), ttl-drift(ttl); got != want {
			t.Errorf("got ValidFor %v, want %v", got, want)
		}
		drop(c, 1)
		r := c.renew(c.Backend, a)
		var gone *driver.GoneError
		if !errors.As(r.Err, &gone) || gone.Reason != driver.ReasonDeleted {
			t.Fatalf("got %v, want gone, deleted", r.Err)
		}
		synctest.Wait()
		c.wantHolders(0)
		if err := c.Release(t.Context(), a); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Release: got %v, want ErrGone", err)
		}
	})
}

// TestReseedCountsLater deletes the claim on one node after the other, with renewals in
// between. A node that gets the claim again counts after a renewal by a majority without
// it.
func TestReseedCountsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		a := c.held()
		for round := range 9 {
			drop(c, round%3)
			c.mustRenew(c.Backend, a) // finds out that it is gone there
			synctest.Wait()
			time.Sleep(ttl / 3)
			if round%2 == 0 {
				c.mustRenew(c.Backend, a) // sends a try, if that was not done before
				synctest.Wait()
			}
			c.mustRenew(c.Backend, a) // is confirmed by a majority without it
			synctest.Wait()
			if n := c.holders(); n != 3 {
				t.Fatalf("round %d: %d nodes hold it, want 3", round, n)
			}
			c.mustRenew(c.Backend, a)
			synctest.Wait()
		}
	})
}

// A node that did not answer when a lock was granted gets it when it answers again,
// although its holder only renews.
func TestReseedOfANodeThatWasSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.members[2].change(hole)
		a := c.claim()
		c.mustGrant(c.Backend, a)
		time.Sleep(ttl / 3)
		c.mustRenew(c.Backend, a)
		c.members[2].change(healed)
		for range 2 {
			time.Sleep(ttl / 3)
			c.mustRenew(c.Backend, a)
		}
		synctest.Wait()
		c.wantHolders(3)
	})
}

// TestReseededNodeDoesNotProve is a sequence in which counting nodes is not enough: A loses
// two nodes, and B held the name in between.
func TestReseededNodeDoesNotProve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		a, b := c.held(), c.claim()
		drop(c, 2)
		c.mustRenew(c.Backend, a)
		synctest.Wait()
		c.mustRenew(c.Backend, a) // sends a try to node 3
		synctest.Wait()
		c.wantHolders(3)
		// Before the next proof, nodes 2 and 3 lose it, B comes and goes, and A's late
		// reseeding arrives at node 3.
		drop(c, 1, 2)
		other := c.other()
		c.mustGrant(other, b)
		c.mustRelease(other, b)
		c.drain(other)
		attempt := c.find(a)
		if out, err := c.members[2].store.Try(t.Context(), attempt.at(a)); err != nil || !out.Granted {
			t.Fatal(out, err)
		}
		attempt.set(2, func(s *seat) { s.held, s.counts = true, false })
		if r := c.renew(c.Backend, a); !errors.Is(r.Err, driver.ErrGone) {
			t.Errorf("got %+v, want gone: node 1 alone held it all the time", r)
		}
	})
}

func TestRenewNeverMakesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		a := c.held()
		time.Sleep(ttl + drift(ttl))
		for range 3 {
			if r := c.renew(c.Backend, a); !errors.Is(r.Err, driver.ErrGone) {
				t.Fatalf("got %+v, want gone", r)
			}
			synctest.Wait()
			c.wantHolders(0)
		}
	})
}

func TestRenewWithoutMajorityIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		a, lost := c.claim(), c.claim()
		lost.Name = "another job"
		c.mustGrant(c.Backend, a)
		c.mustGrant(c.Backend, lost)
		synctest.Wait()
		c.change(hole, 0, 1)
		for _, m := range c.members[2:] {
			m.store.Drop("another job")
		}
		batch := []driver.Claim{a, lost}
		rs, err := c.Renew(t.Context(), batch)
		if err != nil || len(rs) != 2 || rs[0].Err != nil || !errors.Is(rs[1].Err, driver.ErrGone) {
			t.Fatalf("two nodes unreachable: got %v, %v, want one renewed and one gone", rs, err)
		}
		c.members[2].change(hole)
		err = c.renew(c.Backend, a).Err
		if err == nil || errors.Is(err, driver.ErrGone) || !strings.Contains(err.Error(), "node 1 of 5") ||
			!strings.Contains(err.Error(), "node 3 of 5") || strings.Contains(err.Error(), "node 4 of 5") {
			t.Errorf("three nodes unreachable: got %v, want an unknown outcome that names them", err)
		}
		c.change(healed)
		c.mustRenew(c.Backend, a)
	})
}

func TestRestartedNodeDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIncarnated(t, 3)
		a, b := c.claim(), c.claim()
		// A holds nodes 1 and 2.
		c.members[2].change(func(m *member) { m.refuse = driver.ErrNotExecuted })
		c.mustGrant(c.Backend, a)
		c.members[2].change(healed)
		// Node 2 forgets A: nodes 2 and 3 would grant B.
		other := c.other()
		warm := c.claim()
		warm.Name = "warm"
		c.mustGrant(other, warm)
		c.members[1].restart("second 1")
		c.mustRefuse(other, b)
		// Until node 2 has been up for long enough, its vote does not count.
		c.members[2].change(hole)
		maxTTL := c.Info().MaxTTL
		time.Sleep(maxTTL + drift(maxTTL) - time.Second)
		err := c.mustFail(other, b, errRestarted)
		if !strings.Contains(err.Error(), "node 2 of 3") {
			t.Errorf("got %q, want it to name node 2", err)
		}
		time.Sleep(time.Second)
		c.mustGrant(other, b)
	})
}

// TestRestartBetweenGrantsIsSeen restarts a node shortly after its incarnation was read:
// what was known before the grant proves nothing.
func TestRestartBetweenGrantsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIncarnated(t, 3)
		warm := c.claim()
		c.mustGrant(c.Backend, warm)
		c.mustRelease(c.Backend, warm)
		c.drain(c.Backend)
		for i, m := range c.members {
			m.restart([]string{"x", "y", "z"}[i])
		}
		_ = c.mustFail(c.Backend, c.claim(), errRestarted)
	})
}

func TestTrustRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIncarnated(t, 3)
		var backends []driver.Backend
		for i, m := range c.members {
			m.restart([]string{"x", "y", "z"}[i])
			backends = append(backends, incarnated{m})
		}
		c.mustGrant(must(t, backends, &Options{TrustRestarts: true}), c.claim())
	})
}

func TestSameServerTwiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIncarnated(t, 3)
		c.members[1].change(func(m *member) { m.id = "first 0" })
		err := c.mustFail(c.Backend, c.claim(), driver.ErrRefused)
		if want := "node 1 of 3 (memory) and node 2 of 3 (memory) are the same server"; !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
		c.members[1].change(func(m *member) { m.id = "another" })
		c.mustGrant(c.Backend, c.claim())
	})
}

// TestSameServerIsFoundLater has a second member on the same server that was unreachable
// when the first lock was taken.
func TestSameServerIsFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIncarnated(t, 3)
		c.members[1].change(func(m *member) { m.id, m.hole = "first 0", true })
		a := c.claim()
		c.mustGrant(c.Backend, a)
		c.mustRelease(c.Backend, a)
		c.members[1].change(healed)
		c.drain(c.Backend)
		c.members[0].change(func(m *member) { m.latency = 2 * time.Millisecond })
		a = c.claim()
		if _, err := c.Try(t.Context(), a); err == nil {
			c.mustRelease(c.Backend, a)
			c.drain(c.Backend)
		}
		_ = c.mustFail(c.Backend, c.claim(), driver.ErrRefused)
		c.drain(c.Backend)
		c.wantHolders(0)
	})
}

func TestALiarInTheMinority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.members[2].grants = true
		a := c.claim()
		c.mustGrant(c.Backend, a)
		synctest.Wait() // until all have voted: if one vote does not count, a majority of two is too few
		for range 10 {
			c.mustRefuse(c.Backend, c.claim())
			synctest.Wait()
		}
		c.mustRenew(c.Backend, a)
		c.mustRelease(c.Backend, a)
		c.drain(c.Backend)
	})
}

func TestWaiterWakesWithTheFirstNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.held()
		b := c.claim()
		out := c.mustRefuse(c.Backend, b)
		w := c.Waiter(b)
		defer w.Close()
		woken := make(chan error, 1)
		go func() {
			_, err := w.Wait(t.Context(), out)
			woken <- err
		}()
		synctest.Wait()
		if len(woken) > 0 {
			t.Fatal("Wait returned while nothing changed")
		}
		// Two nodes refused, and the third may not have answered.
		seen := out.Ahead.(*refusalView).outcomes
		for i := range seen {
			if seen[i] != nil {
				drop(c, i)
				break
			}
		}
		synctest.Wait()
		if len(woken) != 1 {
			t.Fatal("Wait did not return when a node woke")
		}
		if err := <-woken; err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if _, err := c.Waiter(b).Wait(t.Context(), driver.Outcome{}); err != nil {
			t.Errorf("Wait without an outcome: got %v, want nil", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Wait(ctx, out); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}
