package ordered_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

// A Release whose answer is lost, and that is repeated late, does not end the next claim.
func TestRepeatedReleaseSparesNewerHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ps := processes(t, 1)
		p := ps[0]
		a, b := p.claim(), p.claim()
		p.granted(a, true)
		p.lostRelease("remove", a, true)
		p.granted(b, true)
		for range 2 {
			p.over(a)
		}
		p.renewed(b, nil)
	})
}

// A renewal removes entries without a claim, a third of the TTL later at most: of a Release
// that never arrived and is not repeated, and of a Try that arrived after its Release.
func TestOrphansAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		other := p.claim()
		other.Name = "other"
		p.granted(other, true)

		a := p.claim()
		p.granted(a, true)
		p.lostRelease("remove", a, false)
		p.renewed(other, nil)
		m.empty(t)

		time.Sleep(ttl / 3) // the entries are listed once until then
		late := p.claim()
		p.lostTry(late, false)
		late.Indeterminate = true
		p.over(late)
		m.mu.Lock()
		for session := range m.sessions { // now it arrives
			m.add("job", ordered.Label{Kind: ordered.Mutex, ID: "0123456789abcdef"}, "", session)
		}
		m.mu.Unlock()
		p.renewed(other, nil)
		m.empty(t)
	})
}

// The entries of claims are not swept: of those that hold, wait, or have a Try under way.
func TestSweepSparesClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		held, queued, unsure := p.claim(), p.claim(), p.claim()
		p.granted(held, true)
		p.granted(queued, false)
		p.lostTry(unsure, true)
		for range 3 {
			p.renewed(held, nil)
		}
		if n := m.count("remove"); n != 0 {
			t.Errorf("%d entries were removed", n)
		}
		p.release(held)
		p.granted(queued, true)
		p.release(queued)
		p.granted(unsure, true)
	})
}

// If a Release that keeps a name had no answer, the entry is swept as soon as the name may
// be free, and not before.
func TestSweepSparesNamesToBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		held, kept := p.claim(), p.claim()
		held.Name, kept.AtLeast = "other", 2*ttl
		p.granted(held, true)
		p.granted(kept, true)
		m.spoil(losing("keep"), nil)
		if err := p.Release(t.Context(), kept); !errors.Is(err, errLost) {
			t.Fatalf("got error %v", err)
		}
		for began := time.Now(); time.Since(began) < 3*ttl; time.Sleep(ttl / 2) {
			p.renewed(held, nil)
			if left := m.keys("job"); (left != "") != (time.Since(began) < kept.AtLeast) {
				t.Errorf("after %v of %v there is %q", time.Since(began), kept.AtLeast, left)
			}
		}
	})
}

// arrive makes the entry of a claim whose Try was lost, in a session other than that of the first
// entry.
func (m *memory) arrive(c driver.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for session := range m.sessions {
		if session != m.entries[0].session {
			m.add(c.Name, ordered.Label{Kind: ordered.Mutex, ID: ordered.IDOf(c.Owner)}, "", session)
		}
	}
}

// A TryLock whose first answer is lost, and whose second says busy, may still arrive: its
// Release removes the entry.
func TestLateTryLockIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		held, passing := ps[0].claim(), ps[1].claim()
		passing.NoQueue = true
		ps[0].granted(held, true)
		ps[1].lostTry(passing, false)
		passing.Indeterminate = true
		ps[1].granted(passing, false)
		m.arrive(passing)
		ps[1].release(passing)
		ps[0].release(held)
		m.empty(t)
	})
}

// A TryLock found others before its entry, and began to remove the entry. The store may execute
// that at any time, so the claim is not granted any more, although the name is free meanwhile.
func TestWithdrawnClaimIsNotGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		held, passing := ps[0].claim(), ps[1].claim()
		passing.NoQueue = true
		ps[0].granted(held, true)
		ps[1].lostTry(passing, false)
		passing.Indeterminate = true
		m.arrive(passing)
		m.lose("remove", false)
		if _, err := ps[1].Try(t.Context(), passing); !errors.Is(err, errLost) {
			t.Fatalf("got error %v, want that the answer was lost", err)
		}
		m.spoil(nil, nil)
		ps[0].release(held)
		if out, err := ps[1].Try(t.Context(), passing); !errors.Is(err, driver.ErrGone) {
			t.Errorf("got %+v and error %v, want ErrGone", out, err)
		}
		m.empty(t)
		ps[1].granted(ps[1].claim(), true)
	})
}

// A claim that is tried again after a Release without an answer is not swept.
func TestTriedAgainAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		w := p.writer()
		p.granted(w, true)
		r := p.reader(&w)
		p.granted(r, true)
		p.release(w)
		p.lostRelease("remove", r, false)
		for range 2 {
			p.granted(r, true)
			p.renewed(r, nil)
		}
		p.release(r)
		m.empty(t)

		c := p.claim()
		p.granted(c, true)
		p.lostRelease("remove", c, false)
		p.granted(c, true)
		p.renewed(c, nil)
		p.renewed(c, nil)
	})
}

// If nothing is renewed, a Try that extends the session sweeps.
func TestTrySweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		c := p.claim()
		p.granted(c, true)
		p.lostRelease("remove", c, false)
		time.Sleep(ttl * 2 / 3)
		other := p.claim()
		other.Name = "other"
		p.granted(other, true)
		m.empty(t)
	})
}

// A claim of another kind than the name has leaves no entry, and the Engine forgets it.
func TestMismatchLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		held, w := ps[0].claim(), ps[1].writer()
		ps[0].granted(held, true)
		before := m.keys("job")
		for _, noQueue := range []bool{false, true} {
			w.NoQueue = noQueue
			if _, err := ps[1].Try(t.Context(), w); !errors.Is(err, driver.ErrMismatch) {
				t.Fatalf("got error %v, want ErrMismatch", err)
			}
			if after := m.keys("job"); after != before {
				t.Errorf("got entries %s, want %s", after, before)
			}
			removed := m.count("remove")
			if err := ps[1].Release(t.Context(), w); !errors.Is(err, driver.ErrGone) || m.count("remove") != removed {
				t.Errorf("Release: got error %v after %d calls, want ErrGone after none", err, m.count("remove")-removed)
			}
		}
		m.spoil(losing("remove"), nil)
		w.NoQueue = false
		if _, err := ps[1].Try(t.Context(), w); !errors.Is(err, errLost) || errors.Is(err, driver.ErrMismatch) {
			t.Errorf("got error %v, want one that does not say that nothing is left", err)
		}
	})
}
