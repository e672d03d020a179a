package drivertest

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A brief claim is held for a short time. If the process gets no processor for as long, the
// claim has ended, although the store is right: what a check finds then does not count.

// brief returns a claim that soon ends, unless the check renews it.
func (p *probe) brief() driver.Claim { return p.unrenewed(p.claim()) }

// lasting reports whether a brief claim that was proven at start, or later, has not ended
// yet.
func (p *probe) lasting(start time.Time) bool { return time.Since(start) < p.rounded(p.short) }

// mustRefuseBeside tries c, which must not be granted while the brief claim lasts that was
// proven at start. It reports whether that claim still lasted.
func (p *probe) mustRefuseBeside(c driver.Claim, start time.Time, when string) bool {
	p.Helper()
	_, refused := p.mustRefuseUntil(c, start.Add(p.rounded(p.short)), when)
	return refused
}

// mustRefuseUntil tries c, which must not be granted before end. early reports whether the
// answer came before end.
func (p *probe) mustRefuseUntil(c driver.Claim, end time.Time, when string) (o driver.Outcome, early bool) {
	p.Helper()
	o = p.try(c)
	if early = time.Now().Before(end); early && o.Granted {
		p.Fatalf("Try %s: granted with token %d, want a refusal", when, o.Token)
	}
	return o, early
}

// mustRenewBrief renews the brief claim c, which was proven at *start and must be held
// while that lasts. It reports whether the claim was held, and then sets *start to the
// renewal.
func (p *probe) mustRenewBrief(c driver.Claim, start *time.Time, when string) (r driver.Renewal, held bool) {
	p.Helper()
	began := time.Now()
	if r = p.renew(c); r.Err == nil {
		*start = began
		if r.ValidFor <= 0 {
			p.Errorf("Renew %s: got ValidFor %v, want more than 0", when, r.ValidFor)
		}
		return r, true
	}
	if p.lasting(*start) {
		p.Fatalf("Renew %s: got error %v, want nil", when, r.Err)
	}
	return r, false
}
