package drivertest

import "github.com/holdfast-go/holdfast/driver"

func releaseFreesForOthers(p *probe) {
	for range 5 {
		c := p.Claim()
		p.MustGrant(c, "of a free name")
		p.MustRelease(c, "of a held claim")
	}
}

func releaseTwiceIsGone(p *probe) {
	a, b := p.Claim(), p.Claim()
	p.MustGrant(a, "of a free name")
	p.MustRelease(a, "of a held claim")
	p.MustNotRelease(a, "repeated")
	p.MustGrant(b, "after two Releases")
	p.MustNotRelease(a, "repeated while another claim holds")
	p.MustRenew(b, "of the holder, after the Release of another claim was repeated")
}

func releaseOfNeverTriedIsGone(p *probe) {
	never, a := p.Claim(), p.Claim()
	p.MustNotRelease(never, "of a claim that was never tried")
	p.MustGrant(a, "after the Release of a claim that was never tried")
}

func releaseByStrangerChangesNothing(p *probe) {
	a, stranger, indeterminate, b := p.Claim(), p.Claim(), p.Claim(), p.Claim()
	indeterminate.Indeterminate = true
	p.MustGrant(a, "of a free name")
	p.MustNotRelease(stranger, "by a stranger")
	p.MustNotRelease(indeterminate, "by a stranger, with Indeterminate")
	p.mustTurnAway(b, "after a stranger's Release")
	p.MustRenew(a, "after a stranger's Release")
	p.MustRelease(a, "after a stranger's Release")
}

func indeterminateReleaseRefusesLateTry(p *probe) {
	never := p.Claim()
	p.MustNotRelease(indeterminate(never), "of a claim that has not arrived")
	p.mustNotArrive(never)

	held := p.Claim()
	p.MustGrant(held, "of a free name")
	p.MustRelease(indeterminate(held), "of a held claim")
	p.mustNotArrive(held)
	p.MustNotRenew(held, "of a claim that was given up")

	p.MustGrant(p.Claim(), "after late tries")
}

func indeterminate(c driver.Claim) driver.Claim {
	c.Indeterminate = true
	return c
}

// mustNotArrive tries c after c was given up. The Try may be refused or end in an error, and
// must leave nothing in the store.
func (p *probe) mustNotArrive(c driver.Claim) {
	p.Helper()
	if o, err := p.b.Try(p.Ctx, c); err == nil && o.Granted {
		p.Remember(c)
		p.Fatalf("Try after an indeterminate Release: granted with token %d, want no grant", o.Token)
	}
	next := p.Claim()
	p.MustGrant(next, "by another owner after a late try")
	p.MustRelease(next, "of a held claim")
}
