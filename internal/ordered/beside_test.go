package ordered_test

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
)

func (p *process) writer() driver.Claim {
	c := p.claim()
	c.ReadWrite = true
	return c
}

func (p *process) reader(w *driver.Claim) driver.Claim {
	c := p.writer()
	c.Mode = driver.Shared
	if w != nil {
		c.Beside = w.Owner
	}
	return c
}

// A reader beside its writer is granted before waiters, and excludes a writer that came
// before it until it is released. Other readers are granted meanwhile.
func TestDowngradeKeepsWaitingWritersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		w := ps[0].writer()
		first := ps[0].granted(w, true)
		waiting := ps[1].writer()
		ps[1].granted(waiting, false)
		r := ps[0].reader(&w)
		beside := ps[0].granted(r, true)
		if again := ps[0].granted(r, true); again.Token != beside.Token || beside.Token <= first.Token {
			t.Errorf("tokens %d and again %d, want them to be the same, and more than the writer's %d", beside.Token, again.Token, first.Token)
		}
		ps[0].release(w)
		ps[0].granted(r, true)
		ps[0].renewed(r, nil)
		ps[0].renewed(w, driver.ErrGone)
		ps[1].granted(waiting, false)
		ps[0].over(w)
		ps[0].release(r)
		if after := ps[1].granted(waiting, true); after.Token <= beside.Token {
			t.Errorf("token %d after %d", after.Token, beside.Token)
		}
		ps[1].release(waiting)
		m.empty(t)
	})
}

// The same if answers get lost: that of the writer's release, and that of the last
// reader's.
func TestDowngradeWithLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		p := ps[0]
		w := p.writer()
		p.granted(w, true)
		a, b := p.reader(&w), p.reader(&w)
		p.granted(a, true)
		p.granted(b, true)
		p.lostRelease("share", w, true)
		p.release(w)
		p.renewed(a, nil)
		p.release(a)
		ps[1].granted(ps[1].reader(nil), true)
		p.lostRelease("remove", b, true)
		p.over(b)
		if n := m.count("share"); n != 2 {
			t.Errorf("the entry was shared %d times, want twice: the first had no answer", n)
		}
	})
}

// A writer that is released after its reader removes the entry.
func TestWriterOutlivesReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		p := ps[0]
		w := p.writer()
		p.granted(w, true)
		r := p.reader(&w)
		p.granted(r, true)
		p.release(r)
		p.renewed(r, driver.ErrGone)
		p.renewed(w, nil)
		p.release(w)
		m.empty(t)
		if n := m.count("share"); n != 0 {
			t.Errorf("the entry was shared %d times", n)
		}
	})
}

// Readers without an entry of their own are lost with the session.
func TestDowngradeIsLostWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		w := ps[0].writer()
		ps[0].granted(w, true)
		r := ps[0].reader(&w)
		ps[0].granted(r, true)
		ps[0].release(w)
		m.revoke()
		ps[1].granted(ps[1].writer(), true)
		ps[0].renewed(r, driver.ErrGone)
		ps[0].granted(r, false)
	})
}

// No reader is granted beside a writer whose entry another program removed.
func TestNoReaderBesideRemovedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		w := ps[0].writer()
		ps[0].granted(w, true)
		r := ps[0].reader(&w)
		ps[0].granted(r, true)
		m.drop(func(entry) bool { return true })
		ps[1].granted(ps[1].writer(), true)
		ps[0].granted(r, false)
		ps[0].granted(ps[0].reader(&w), false)
	})
}
