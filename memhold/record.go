package memhold

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// remember is the shortest time for which a claim that is gone is remembered.
const remember = 5 * time.Second

// record is one grant. ended is closed when the grant ends, so whoever was told
// of it cannot miss its end, however late it starts to wait.
type record struct {
	owner   string
	note    string
	holds   int
	expires time.Time
	ended   chan struct{}
}

func (r *record) extend(c driver.Claim, now time.Time) {
	r.holds = max(c.Holds, 1)
	r.expires = later(r.expires, now.Add(c.TTL))
}

func (r *record) lapsed(now time.Time) bool { return !now.Before(r.expires) }

// claimID tells claims apart.
type claimID struct{ name, owner string }

func idOf(c driver.Claim) claimID { return claimID{c.Name, c.Owner} }

// mark is what is remembered of a claim that is gone.
type mark struct {
	abandoned bool          // later tries of it are refused
	reason    driver.Reason // why it ended, if not by its own release
	detail    string
	until     time.Time
}

// begin starts a call and returns its time. Now and then it drops all that has
// lapsed: after as many calls as there are records and marks to look at, so
// that a call pays for one of them on average.
func (b *Backend) begin() time.Time {
	now := time.Now()
	b.calls++
	if b.calls <= len(b.records)+len(b.marks) {
		return now
	}
	b.calls = 0
	for name, r := range b.records {
		if r.lapsed(now) {
			b.end(name, r)
		}
	}
	for id, m := range b.marks {
		if !now.Before(m.until) {
			delete(b.marks, id)
		}
	}
	return now
}

// live returns the grant of name, or nil. A lapsed one is dropped.
func (b *Backend) live(name string, now time.Time) *record {
	r := b.records[name]
	if r == nil {
		return nil
	}
	if r.lapsed(now) {
		b.end(name, r)
		return nil
	}
	return r
}

// end drops the grant r of name and wakes its waiters.
func (b *Backend) end(name string, r *record) {
	delete(b.records, name)
	close(r.ended)
}

// revoke ends the grant r of name against its owner's will, and remembers why
// for as long as the owner may still believe in it.
func (b *Backend) revoke(name string, r *record, now time.Time, why driver.Reason, detail string) {
	b.end(name, r)
	b.marks[claimID{name, r.owner}] = mark{
		reason: why,
		detail: detail,
		until:  later(r.expires, now.Add(remember)),
	}
}

// abandon sees to it that a try of c that is still on its way finds nothing to
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
	if r := b.live(c.Name, now); r != nil {
		return &driver.GoneError{Reason: driver.NotOwner, Detail: fmt.Sprintf("another owner holds the name: %q", r.note)}
	}
	return &driver.GoneError{Reason: driver.Expired, Detail: "nothing of the claim is left: it expired or was released"}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
