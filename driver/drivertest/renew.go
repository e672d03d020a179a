package drivertest

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
)

func renewExtendsBeyondTTL(p *probe) {
	for {
		a, b := p.brief(), p.Claim()
		if lasted := p.renewBeyondTTL(a, b); lasted {
			a.TTL = p.TTL // the TTL of its last renewal
			p.MustRelease(a, "of a renewed claim")
			p.MustGrant(b, "after a renewed claim was released")
			return
		}
		p.Withdraw(a)
		p.Withdraw(b)
	}
}

// renewBeyondTTL renews the brief claim `a` repeatedly for the time of two of its leases, while
// `b` must be refused. Then it renews `a` with a longer TTL. `lasted` is false if `a` expired
// because a renewal came too late. In that case the caller begins again.
func (p *probe) renewBeyondTTL(a, b driver.Claim) (lasted bool) {
	p.Helper()
	began := time.Now()
	start := began
	p.MustGrant(a, "of a free name")
	for time.Since(began) < 2*p.Rounded(p.short) {
		pause(p.Ctx, p.short/5)
		_, held := p.mustRenewBrief(a, &start, "of a held claim")
		if !held || !p.mustRefuseBeside(b, start, "while the lease is renewed") {
			return false
		}
	}
	a.TTL = p.TTL
	r, held := p.mustRenewBrief(a, &start, "to a longer TTL")
	if held && p.has(expiry) && r.ValidFor < p.TTL/2 {
		p.Errorf("Renew to TTL %v: got ValidFor %v", p.TTL, r.ValidFor)
	}
	return held
}

// renewLastsForItsOwnTTL renews two claims in one call. The first claim is near the end of its
// lease, and its renewal has a shorter TTL than its grant had. The second claim has a long TTL.
// The first claim must expire after its new TTL.
func renewLastsForItsOwnTTL(p *probe) {
	if p.has(sessions) {
		return // all claims last for as long as the session
	}
	for {
		a, b, next := p.Claim(), p.Claim(), p.Claim()
		b.Name += " long"
		a.TTL = p.lapse() + p.Rounded(p.short)
		granted := time.Now()
		p.MustGrant(a, "of a free name")
		p.MustGrant(b, "of a free name")
		pause(p.Ctx, a.TTL-p.Rounded(p.short)/2)
		renewed := a
		renewed.TTL = p.short
		answers, err := p.b.Renew(p.Ctx, []driver.Claim{b, renewed})
		if err != nil || len(answers) != 2 || answers[0].Err != nil {
			p.Fatalf("Renew of two claims: got %+v and error %v", answers, err)
		}
		if answers[1].Err == nil {
			p.MustGrantBy(next, time.Now().Add(p.lapse()), "after a lease that was renewed with a shorter TTL than before")
			return
		}
		if time.Since(granted) < a.TTL {
			p.Fatalf("Renew near the end of a claim: got error %v, want nil", answers[1].Err)
		}
		p.Name += " again"
	}
}

func renewTouchesOwnClaimOnly(p *probe) {
	a, stranger, b := p.brief(), p.Claim(), p.Claim()
	start := time.Now()
	p.MustGrant(a, "of a free name")
	granted := time.Now()
	p.MustNotRenew(conformance.WithClient(stranger, a.Client), "by a stranger")
	p.mustRefuseBeside(b, start, "after a stranger's Renew")
	if !p.has(expiry) {
		return
	}
	p.MustGrantBy(b, granted.Add(p.lapse()), "after the lease, which a stranger tried to renew")
}

func renewNeverRevives(p *probe) {
	a, b := p.Claim(), p.Claim()
	p.MustGrant(a, "of a free name")
	p.MustRelease(a, "of a held claim")
	p.MustNotRenew(a, "of a released claim")
	p.MustGrant(b, "after the Renew of a released claim")
	p.MustNotRenew(a, "of a released claim, while another claim holds")
	p.MustRenew(b, "of the holder")
	p.MustRelease(b, "of the holder")
	if !p.has(expiry) {
		return
	}

	a, b = p.brief(), p.Claim()
	p.MustGrant(a, "of a free name")
	p.MustGrantBy(b, time.Now().Add(p.lapse()), "after the lease")
	p.MustRelease(b, "of the claim that followed")
	p.MustNotRenew(a, "of an expired claim, with the name free again")
	p.MustGrant(p.Claim(), "after the Renew of an expired claim")
}

func renewAnswersEachClaim(p *probe) {
	if got, err := p.b.Renew(p.Ctx, nil); err != nil || len(got) != 0 {
		p.Errorf("Renew of no claims: got %v, %v, want nothing", got, err)
	}
	on := func(suffix string) driver.Claim { return p.on(p.Name + suffix) }
	held, lost, never, late := on(" held"), on(" lost"), on(" never"), on(" late")
	stranger := on(" held")
	p.MustGrant(held, "of a free name")
	p.MustGrant(lost, "of a free name")
	p.MustRelease(lost, "of a held claim")
	p.MustGrant(late, "of a free name")

	for _, fixed := range []bool{true, false} {
		batch := []driver.Claim{held, lost, never, stranger, late}
		for i := range batch {
			batch[i].Fixed = fixed
		}
		want := []error{nil, driver.ErrGone, driver.ErrGone, driver.ErrGone, nil}
		answers, err := p.b.Renew(p.Ctx, batch)
		if err != nil || len(answers) != len(batch) {
			p.Fatalf("Renew of a batch, Fixed %t: got %d answers and error %v, want %d answers", fixed, len(answers), err, len(batch))
		}
		for i, a := range answers {
			if !errors.Is(a.Err, want[i]) {
				p.Errorf("Renew of a batch, Fixed %t, claim on %q: got %v, want %v", fixed, batch[i].Name, a.Err, want[i])
			}
		}
	}
	p.MustRelease(held, "after a batch")
	p.MustRelease(late, "after a batch")
	p.MustGrant(never, "after the Renew of a claim that was never tried")
}
