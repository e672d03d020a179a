package drivertest

import (
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// kindsDoNotMix uses one name for two things. A semaphore and a latch are not
// tried on each other: to some stores, and to Redisson, both are but a number.
func kindsDoNotMix(p *probe) {
	kinds := map[string]func() driver.Claim{"mutex": p.claim}
	if p.has(shared) {
		kinds["read lock"], kinds["write lock"] = p.reader, p.writer
	}
	if p.has(permits) {
		kinds["semaphore"] = func() driver.Claim { return p.permit(2) }
	}
	name := p.name
	for used, holder := range kinds {
		for other, claim := range kinds {
			if used == other || holder().ReadWrite && claim().ReadWrite {
				continue
			}
			p.name = name + " " + used + " " + other
			p.mustMismatch(used, holder(), other, claim())
		}
	}
}

func (p *probe) mustMismatch(used string, holder driver.Claim, other string, c driver.Claim) {
	p.Helper()
	p.mustGrant(holder, "of a free name as a "+used)
	for range 2 {
		o, err := p.b.Try(p.ctx, c)
		if !errors.Is(err, driver.ErrMismatch) {
			p.remember(c)
			p.Errorf("Try of a %s as a %s: got %+v, %v, want ErrMismatch", used, other, o, err)
			break
		}
	}
	p.mustRenew(holder, "of a "+used+" that was tried as a "+other)
	p.mustRelease(holder, "of a "+used+" that was tried as a "+other)
}

// latchIsNoLock uses a name as a latch and as a mutex.
func latchIsNoLock(p *probe) {
	l := p.b.(driver.Latcher)
	p.mustSet("one", 2, true, "of a free name")
	if o, err := p.b.Try(p.ctx, p.claim()); !errors.Is(err, driver.ErrMismatch) {
		p.Errorf("Try of a latch: got %+v, %v, want ErrMismatch", o, err)
	}
	p.mustBeAt(2, "after it was tried as a mutex")
	p.openLatch(2)

	p.name += " mutex"
	c := p.claim()
	p.mustGrant(c, "of a free name")
	if set, err := l.SetCount(p.ctx, p.name, p.call("set"), 2); !errors.Is(err, driver.ErrMismatch) {
		p.Errorf("SetCount of a mutex: got %v, %v, want ErrMismatch", set, err)
	}
	p.mustRelease(c, "of a mutex that was set as a latch")
}

// inspectShowsEveryHolder looks at names with several holders. Redisson knows a
// permit by an id of 16 bytes, so a store may show that in the owner's place.
func inspectShowsEveryHolder(p *probe) {
	name := p.name
	if p.has(shared) {
		p.name = name + " readers"
		a, b := p.reader(), p.reader()
		shown := p.mustShowTwo(a, b)
		if !shown[a.Owner] || !shown[b.Owner] {
			p.Errorf("Inspect: got owners %v, want %s and %s", shown, a.Owner, b.Owner)
		}
	}
	if p.has(permits) {
		p.name = name + " permits"
		p.mustShowTwo(p.permit(2), p.permit(2))
	}
}

// mustShowTwo takes a and b, gives both back, and looks at each step. It returns
// the owners that were shown for both.
func (p *probe) mustShowTwo(a, b driver.Claim) map[string]bool {
	p.Helper()
	p.mustGrant(a, "of a free name")
	p.mustGrant(b, "beside another holder")
	both := p.mustShowSome(2, "with two holders")
	p.mustRelease(a, "of the first of two holders")
	for owner := range p.mustShowSome(1, "with one holder left") {
		if !both[owner] {
			p.Errorf("Inspect: got owner %q left of two, want one of %v", owner, both)
		}
	}
	p.mustRelease(b, "of the last holder")
	p.mustShowSome(0, "after the last holder has left")
	return both
}

// mustShowSome returns the owners that are shown, which must be n.
func (p *probe) mustShowSome(n int, when string) map[string]bool {
	p.Helper()
	hs := p.inspect()
	owners := make(map[string]bool)
	for _, h := range hs {
		owners[h.Owner] = true
		if limit := p.rounded(p.long); p.has(expiry) && (h.Remaining <= 0 || h.Remaining > limit) {
			p.Errorf("Inspect %s: got %v remaining, want more than 0 and at most %v", when, h.Remaining, limit)
		}
	}
	if len(hs) != n || len(owners) != n {
		p.Fatalf("Inspect %s: got %+v, want %d different owners", when, hs, n)
	}
	return owners
}
