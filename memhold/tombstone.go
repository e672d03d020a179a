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

// tombstone is what is remembered of a claim that is gone.
type tombstone struct {
	abandoned bool          // later tries of the claim are refused
	reason    driver.Reason // why it ended, if not by its own release
	detail    string
	why       string // given to ForceUnlock
	until     time.Time
}

// begin starts a call and returns its time. After as many calls as there are things to
// check, it drops all that has expired, so that a call checks one thing on average.
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

// revoke ends the grant g of name by force, and remembers the reason for as long as the
// owner may still consider itself the holder.
func (b *Backend) revoke(name string, e *resource, g *grant, now time.Time, why driver.Reason, detail string) {
	e.remove(g)
	b.notify(g)
	b.tombstones[claimID{name, g.owner}] = tombstone{
		reason: why,
		detail: detail,
		until:  later(g.expires, now.Add(rememberFor)),
	}
}

// abandon ensures that a try of c that is still on its way is refused.
func (b *Backend) abandon(c driver.Claim, now time.Time) {
	m := b.tombstones[idOf(c)]
	m.abandoned = true
	m.until = later(m.until, now.Add(max(c.TTL, rememberFor)))
	b.tombstones[idOf(c)] = m
}

// gone returns why nothing of c is left. The reason for a forced end comes before another
// holder.
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
