package memhold

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/document"
)

// claimID identifies a claim.
type claimID struct{ name, owner string }

func idOf(c driver.Claim) claimID { return claimID{c.Name, c.Owner} }

// tombstone is what the Backend remembers about a claim that is gone.
type tombstone struct {
	abandoned bool          // later tries of the claim are refused
	reason    driver.Reason // why the grant ended; "" if its owner released it
	detail    string
	why       string // the reason that was given to ForceUnlock
	until     time.Time
}

// begin begins a call and returns the time. It also removes all expired resources, tombstones
// and answers. If the number of all of these is N, begin does so only once in N calls, so that
// a call checks one of them on average.
func (b *Backend) begin() time.Time {
	now := time.Now()
	b.calls++
	if b.calls <= len(b.resources)+len(b.tombstones)+len(b.answers) {
		return now
	}
	b.calls = 0
	for name := range b.resources {
		b.live(name, now)
	}
	for id, m := range b.tombstones {
		if !now.Before(m.until) {
			delete(b.tombstones, id)
		}
	}
	for id, a := range b.answers {
		if !now.Before(a.until) {
			delete(b.answers, id)
		}
	}
	return now
}

// revoked notifies the client of the grant g of the name, which has ended although its owner has
// not released it. It remembers the reason until the lease would have ended, and for at least
// document.Remember.
func (b *Backend) revoked(name string, g document.Grant, now time.Time, why driver.Reason, detail string) {
	b.notify(g)
	b.tombstones[claimID{name, g.Owner}] = tombstone{
		reason: why,
		detail: detail,
		until:  later(g.Expires, now.Add(document.Remember)),
	}
}

// abandon ensures that a try of c that arrives later is refused.
func (b *Backend) abandon(c driver.Claim, now time.Time) {
	m := b.tombstones[idOf(c)]
	m.abandoned = true
	m.until = later(m.until, now.Add(max(c.TTL, document.Remember)))
	b.tombstones[idOf(c)] = m
}

// gone returns why nothing of c is left. If its grant was revoked, gone returns that reason,
// even if another owner holds the name.
func (b *Backend) gone(c driver.Claim, now time.Time) *driver.GoneError {
	if m := b.tombstones[idOf(c)]; m.reason != "" && now.Before(m.until) {
		return &driver.GoneError{Reason: m.reason, Detail: m.detail}
	}
	return b.open(c.Name, now).Gone(c)
}
