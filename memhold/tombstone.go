package memhold

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// rememberFor is the shortest time for which the Backend remembers a claim that is gone,
// and a call on a latch.
const rememberFor = 5 * time.Second

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

// revoke ends the grant g of the name, although its owner has not released it. It remembers the
// reason until the lease would have ended, and for at least rememberFor.
func (b *Backend) revoke(name string, e *resource, g *grant, now time.Time, why driver.Reason, detail string) {
	e.remove(g)
	b.notify(g)
	b.tombstones[claimID{name, g.owner}] = tombstone{
		reason: why,
		detail: detail,
		until:  later(g.expires, now.Add(rememberFor)),
	}
}

// abandon ensures that a try of c that arrives later is refused.
func (b *Backend) abandon(c driver.Claim, now time.Time) {
	m := b.tombstones[idOf(c)]
	m.abandoned = true
	m.until = later(m.until, now.Add(max(c.TTL, rememberFor)))
	b.tombstones[idOf(c)] = m
}

// gone returns why nothing of c is left. If its grant was revoked, gone returns the reason of
// revoke, even if another owner holds the name.
func (b *Backend) gone(c driver.Claim, now time.Time) *driver.GoneError {
	if m := b.tombstones[idOf(c)]; m.reason != "" && now.Before(m.until) {
		return &driver.GoneError{Reason: m.reason, Detail: m.detail}
	}
	if e := b.live(c.Name, now); e != nil {
		if x := e.exclusive(); x != nil && x.owner != c.Owner && !driver.Kept(x.owner) {
			return &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: fmt.Sprintf("another owner holds the name: %q", x.note)}
		}
	}
	return &driver.GoneError{Reason: driver.ReasonExpired, Detail: "nothing of the claim is left: it expired or was released"}
}
