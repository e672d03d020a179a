package document

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Try makes one attempt to take the name for c.Owner at the time `now`, as driver.Backend says. The
// parameter `floor` is a token that is larger than all tokens of the name that the Document may not
// know; 0 if it knows all. Outcome.Ahead is not set. Purge comes before Try.
func (d *Document) Try(c driver.Claim, now time.Time, floor uint64) (driver.Outcome, error) {
	k := KindOf(c)
	if err := d.Expect(c.Name, k); err != nil {
		return driver.Outcome{}, err
	}
	if k == Semaphore && d.Kind == "" {
		if c.Permits < 1 {
			return driver.Outcome{}, Refused("semaphore %q does not exist yet, and the claim does not say how many permits it has", c.Name)
		}
		d.Permits = c.Permits
	}
	d.Kind = k
	g := d.Held(c.Owner)
	if g == nil {
		if !d.enter(c, now) {
			out := d.refusal(c, now)
			d.tidy()
			return out, nil
		}
		d.Grants = append(d.Grants, Grant{Owner: c.Owner, Client: c.Client, Seq: c.Seq, Mode: c.Mode, Since: now})
		g = &d.Grants[len(d.Grants)-1]
	}
	g.Note = c.Note
	d.extend(g, c, now)
	token := d.reserve(c.Tokens, now, floor)
	if g.Token == 0 {
		g.Token = token
	}
	out := driver.Outcome{Granted: true, Token: token, ValidFor: g.Expires.Sub(now)}
	if k == Semaphore && d.Permits != c.Permits {
		out.Permits = d.Permits
	}
	return out, nil
}

// extend extends the lease of g to the TTL of c, and records its count. It never shortens the
// lease. The lease counts as renewed also if it does not become longer: the holder may know of an
// earlier end than others, or of a later one.
func (d *Document) extend(g *Grant, c driver.Claim, now time.Time) {
	g.Holds = max(c.Count, 1)
	g.Expires, g.Renewed = later(g.Expires, now.Add(c.TTL)), d.Revision
}

// keep extends a place in the queue.
func (d *Document) keep(p *Place, now time.Time) {
	p.Expires, p.Renewed = now.Add(Presence), d.Revision
}

// reserve reserves n consecutive tokens and returns the first. It is larger than the last token, and
// not smaller than `floor`. If these two allow it, the last of the n tokens is the time in
// microseconds since 1970. So the tokens of a Document are larger than those of an earlier Document
// of the name, if nobody draws more than a million tokens a second, and the clocks agree.
func (d *Document) reserve(n int, now time.Time, floor uint64) uint64 {
	n = max(n, 1)
	first := max(d.Last+1, floor, uint64(max(now.UnixMicro()-int64(n)+1, 1)))
	d.Last = first + uint64(n) - 1
	return first
}

// beside reports whether c is a Shared claim of a caller that has the exclusive grant. The field
// Beside of such a claim is the owner of that grant.
func (d *Document) beside(c driver.Claim) bool {
	x := d.Exclusive()
	return x != nil && c.Mode == driver.Shared && x.Owner == c.Beside
}

// admits reports whether c can be granted beside the present grants.
func (d *Document) admits(c driver.Claim) bool {
	switch {
	case d.Kind == Semaphore:
		return len(d.Grants) < d.Permits
	case c.Mode == driver.Shared:
		return d.Exclusive() == nil || d.beside(c)
	default:
		return len(d.Grants) == 0
	}
}

// enter reports whether c can be granted now. A fair claim can be granted only if it is the first
// in the queue. If it can be granted, enter removes it from the queue, else enter puts it into the
// queue, unless NoQueue is set. A claim for which the method beside returns true does not queue,
// because its caller would wait for its own grant.
func (d *Document) enter(c driver.Claim, now time.Time) bool {
	if !c.Fair || d.beside(c) {
		return d.admits(c)
	}
	i := d.Position(c.Owner)
	if c.NoQueue && i < 0 {
		return len(d.Queue) == 0 && d.admits(c)
	}
	if i < 0 {
		i = len(d.Queue)
		d.Queue = append(d.Queue, Place{Owner: c.Owner, Note: c.Note, Mode: c.Mode, Client: c.Client})
	}
	d.keep(&d.Queue[i], now)
	if i > 0 || !d.admits(c) {
		return false
	}
	d.leave(c.Owner)
	return true
}

// leave removes the place of an owner from the queue.
func (d *Document) leave(owner string) {
	d.dequeue(func(p Place) bool { return p.Owner == owner })
}

// refusal returns the answer to c, which was not granted.
func (d *Document) refusal(c driver.Claim, now time.Time) driver.Outcome {
	var out driver.Outcome
	var next time.Time // when another try may be granted without a notification
	see := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, g := range d.Grants {
		see(g.Expires)
	}
	if len(d.Grants) > 0 {
		g := d.Grants[0]
		out.Holder, out.HeldFor, out.Kept = g.Note, max(now.Sub(g.Since), 0), driver.Kept(g.Owner)
	}
	if i := d.Position(c.Owner); i >= 0 {
		out.Queued = true
		for _, p := range d.Queue[:i] {
			see(p.Expires)
		}
		see(now.Add(Presence / 3)) // the claim must try again to keep its place
	}
	if !next.IsZero() {
		out.RetryAfter = next.Sub(now)
	}
	return out
}

// Renew extends the grant of c, or its place in the queue, at the time `now`. It returns for how
// long that lasts, and false if c has neither. Purge comes before Renew.
func (d *Document) Renew(c driver.Claim, now time.Time) (validFor time.Duration, ok bool) {
	if g := d.Held(c.Owner); g != nil {
		d.extend(g, c, now)
		return g.Expires.Sub(now), true
	}
	if i := d.Position(c.Owner); i >= 0 {
		d.keep(&d.Queue[i], now)
		return Presence, true
	}
	return 0, false
}

// Release ends the grant of c, its place in the queue or its mark, and returns false if c has none. If
// AtLeast is set, the name stays taken for that time, by an owner that ends in driver.KeptOwner.
// Release wakes waiters also then, because the name may become free earlier than their last try
// showed. Purge comes before Release.
func (d *Document) Release(c driver.Claim, now time.Time) bool {
	g := d.Held(c.Owner)
	switch {
	case g != nil && c.AtLeast > 0:
		g.Owner, g.Expires, g.Renewed = g.Owner+driver.KeptOwner, now.Add(c.AtLeast), d.Revision
		d.free(now)
	case g != nil:
		d.End(c.Owner, now)
	case d.Position(c.Owner) >= 0:
		d.leave(c.Owner)
		d.tidy()
	default:
		return d.unmark(c.Owner)
	}
	return true
}

// End ends the grant of an owner, and wakes waiters. It returns the grant, and false if there was
// none.
func (d *Document) End(owner string, now time.Time) (g Grant, ok bool) {
	i := d.grantOf(owner)
	if i < 0 {
		return Grant{}, false
	}
	g = d.Grants[i]
	d.Grants = slices.Delete(d.Grants, i, i+1)
	d.free(now)
	d.tidy()
	return g, true
}

// Clear ends the name's use: its grants, its queue, its permits, its count. It wakes all waiters,
// and returns the grants that it has ended. The last token stays.
func (d *Document) Clear(now time.Time) []Grant {
	ended := d.Grants
	d.Grants = nil
	d.dequeue(func(Place) bool { return true })
	d.Waiting = nil
	d.free(now)
	d.Kind, d.Permits, d.Count = "", 0, 0
	return ended
}

// Gone returns why nothing of c is left, as far as the Document shows it.
func (d *Document) Gone(c driver.Claim) *driver.GoneError {
	if f := d.forced(c.Owner); f != nil {
		return &driver.GoneError{Reason: driver.ReasonForced, Detail: fmt.Sprintf("lock of %q was broken: %s", f.Note, f.Why)}
	}
	if x := d.Exclusive(); x != nil && x.Owner != c.Owner && !driver.Kept(x.Owner) {
		return &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: fmt.Sprintf("another owner holds the name: %q", x.Note)}
	}
	return &driver.GoneError{Reason: driver.ReasonExpired, Detail: "nothing of the claim is left: it expired or was released"}
}
