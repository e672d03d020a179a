package drivertest

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A brief claim has a short lease. If this process gets no processor for the time of the lease,
// the claim ends, and the store has made no mistake. So a check ignores answers that came after
// the end of the lease.

// brief returns a new claim that expires soon, unless the check renews it.
func (p *probe) brief() driver.Claim { return p.unrenewed(p.Claim()) }

// lasting reports whether a brief claim has certainly not expired yet. The instant `start` is
// before the call that last granted or renewed the claim.
func (p *probe) lasting(start time.Time) bool { return time.Since(start) < p.Rounded(p.short) }

// mustRefuseBeside tries c while a brief claim holds the name. It requires that c is not
// granted before the brief claim might expire. The instant `start` is before the call that last
// granted or renewed the brief claim. mustRefuseBeside reports whether the answer came before
// the brief claim might expire.
func (p *probe) mustRefuseBeside(c driver.Claim, start time.Time, when string) bool {
	p.Helper()
	_, refused := p.mustRefuseUntil(c, start.Add(p.Rounded(p.short)), when)
	return refused
}

// mustRefuseUntil tries c, which must not be granted before the instant `end`. `early` reports
// whether the answer came before that instant.
func (p *probe) mustRefuseUntil(c driver.Claim, end time.Time, when string) (o driver.Outcome, early bool) {
	p.Helper()
	o = p.Try(c)
	if early = time.Now().Before(end); early && o.Granted {
		p.Fatalf("Try %s: granted with token %d, want a refusal", when, o.Token)
	}
	return o, early
}

// mustRenewBrief renews the brief claim c. The instant *start is before the call that last
// granted or renewed c. The renewal must succeed if c cannot have expired since then. `held`
// reports whether the renewal succeeded. If so, mustRenewBrief sets *start to an instant just
// before the renewal.
func (p *probe) mustRenewBrief(c driver.Claim, start *time.Time, when string) (r driver.Renewal, held bool) {
	p.Helper()
	began := time.Now()
	if r = p.Renew(c); r.Err == nil {
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
