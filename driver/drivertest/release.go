package drivertest

import "github.com/holdfast-go/holdfast/driver"

func releaseFreesForOthers(p *probe) {
	for range 5 {
		c := p.claim()
		p.mustGrant(c, "of a free name")
		p.mustRelease(c, "of a held claim")
	}
}

func releaseTwiceIsGone(p *probe) {
	a, b := p.claim(), p.claim()
	p.mustGrant(a, "of a free name")
	p.mustRelease(a, "of a held claim")
	p.mustNotRelease(a, "repeated")
	p.mustGrant(b, "after two Releases")
	p.mustNotRelease(a, "repeated while another holds")
	p.mustRenew(b, "of the holder, after another's Release was repeated")
}

func releaseOfNeverTriedIsGone(p *probe) {
	never, a := p.claim(), p.claim()
	p.mustNotRelease(never, "of a claim that was never tried")
	p.mustGrant(a, "after the Release of a claim that was never tried")
}

func releaseByStrangerChangesNothing(p *probe) {
	a, stranger, indeterminate, b := p.claim(), p.claim(), p.claim(), p.claim()
	indeterminate.Indeterminate = true
	p.mustGrant(a, "of a free name")
	p.mustNotRelease(stranger, "by a stranger")
	p.mustNotRelease(indeterminate, "by a stranger, indeterminate")
	p.mustRefuse(b, "after a stranger's Release")
	p.withdraw(b)
	p.mustRenew(a, "after a stranger's Release")
	p.mustRelease(a, "after a stranger's Release")
}

func indeterminateReleaseRefusesLateTry(p *probe) {
	never := p.claim()
	p.mustNotRelease(indeterminate(never), "of a claim that has not arrived")
	p.mustNotArrive(never)

	held := p.claim()
	p.mustGrant(held, "of a free name")
	p.mustRelease(indeterminate(held), "of a held claim")
	p.mustNotArrive(held)
	p.mustNotRenew(held, "of a claim that was given up")

	p.mustGrant(p.claim(), "after late tries")
}

func indeterminate(c driver.Claim) driver.Claim {
	c.Indeterminate = true
	return c
}

// mustNotArrive tries c after it was given up. The Try may be refused or end in an error,
// and must leave nothing in the store.
func (p *probe) mustNotArrive(c driver.Claim) {
	p.Helper()
	if o, err := p.b.Try(p.ctx, c); err == nil && o.Granted {
		p.remember(c)
		p.Fatalf("Try after an indeterminate Release: granted with token %d, want no grant", o.Token)
	}
	next := p.claim()
	p.mustGrant(next, "by another owner after a late try")
	p.mustRelease(next, "of a held claim")
}
