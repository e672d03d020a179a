package memhold

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// remember is the shortest time for which a claim that is gone, and a call that
// was answered, are remembered.
const remember = 5 * time.Second

// claimID distinguishes claims.
type claimID struct{ name, owner string }

func idOf(c driver.Claim) claimID { return claimID{c.Name, c.Owner} }

// mark is what is remembered of a claim that is gone.
type mark struct {
	abandoned bool          // later tries of it are refused
	reason    driver.Reason // why it ended, if not by its own release
	detail    string
	why       string // given to Break
	until     time.Time
}

// begin starts a call and returns its time. Now and then it drops all that has
// lapsed: after as many calls as there are things to look at, so that a call
// pays for one of them on average.
func (b *Backend) begin() time.Time {
	now := time.Now()
	b.calls++
	if b.calls <= len(b.entries)+len(b.marks)+len(b.answers) {
		return now
	}
	b.calls = 0
	for name := range b.entries {
		b.live(name, now)
	}
	for id, m := range b.marks {
		if !now.Before(m.until) {
			delete(b.marks, id)
		}
	}
	for id, a := range b.answers {
		if !now.Before(a.until) {
			delete(b.answers, id)
		}
	}
	return now
}

// revoke ends the grant g of name against its owner's will, and remembers why
// for as long as the owner may still consider itself the holder.
func (b *Backend) revoke(name string, e *entry, g *grant, now time.Time, why driver.Reason, detail string) {
	e.remove(g)
	b.notify(g)
	b.marks[claimID{name, g.owner}] = mark{
		reason: why,
		detail: detail,
		until:  later(g.expires, now.Add(remember)),
	}
}

// abandon ensures that a try of c that is still on its way finds nothing to
// grant.
func (b *Backend) abandon(c driver.Claim, now time.Time) {
	m := b.marks[idOf(c)]
	m.abandoned = true
	m.until = later(m.until, now.Add(max(c.TTL, remember)))
	b.marks[idOf(c)] = m
}

// gone says why nothing of c is left. Why it was ended counts for more than who
// holds the name now.
func (b *Backend) gone(c driver.Claim, now time.Time) *driver.GoneError {
	if m := b.marks[idOf(c)]; m.reason != "" && now.Before(m.until) {
		return &driver.GoneError{Reason: m.reason, Detail: m.detail}
	}
	if e := b.live(c.Name, now); e != nil {
		if x := e.exclusive(); x != nil && x.owner != c.Owner && !driver.Kept(x.owner) {
			return &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: fmt.Sprintf("another owner holds the name: %q", x.note)}
		}
	}
	return &driver.GoneError{Reason: driver.ReasonExpired, Detail: "nothing of the claim is left: it expired or was released"}
}
