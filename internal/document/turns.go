package document

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Turn is the time for which a name that has become free is reserved for the claim that has waited
// for longest. Then the second claim may take it, too, one Turn later the third, and so on. A Turn
// is longer than the pause between two polls of a name, so that only a claim that has died or hangs
// misses its turn.
const Turn = 300 * time.Millisecond

const (
	// MostWaiting is how many claims wait with a Mark at most. Further claims wait without one.
	MostWaiting = 100
	// turnsMost is after how many turns any claim may take a free name, because those that have
	// waited for longest may have died.
	turnsMost = 8
)

// Mark says that a claim without a place in the queue waits. A Mark does not expire, because it
// delays others by one Turn at most. The order of the Marks is that in which the claims came.
type Mark struct {
	Owner  string
	Mode   driver.Mode
	Client string // of the claim
}

// TryInTurn does what Try does. Claims that are not fair take turns, too, for a store whose waiters
// find out by themselves, sooner or later, that the name is free. A claim that is refused gets a
// Mark, unless NoQueue is set; then Outcome.Queued is true. A name that has become free is reserved
// for the claims with a Mark, in their order, as Turn says. A claim that is granted is not delayed
// by those beside which it can be: a reader not by readers, and no claim by those for which there
// is another permit.
func (d *Document) TryInTurn(c driver.Claim, now time.Time, floor uint64) (driver.Outcome, error) {
	if c.Fair || d.Held(c.Owner) != nil || d.beside(c) || d.Expect(c.Name, KindOf(c)) != nil {
		return d.Try(c, now, floor)
	}
	before := d.overtaken(c)
	if now.Before(d.turn(len(before))) {
		return d.refuseInTurn(c, now), nil
	}
	out, err := d.Try(c, now, floor)
	if err != nil {
		return out, err
	}
	if !out.Granted {
		return d.refuseInTurn(c, now), nil
	}
	d.Waiting = slices.DeleteFunc(d.Waiting, func(m Mark) bool { return m.Owner == c.Owner || slices.Contains(before, m.Owner) })
	return out, nil
}

// refuseInTurn gives c a Mark, and returns the answer to c.
func (d *Document) refuseInTurn(c driver.Claim, now time.Time) driver.Outcome {
	if d.ahead(c.Owner) == len(d.Waiting) && len(d.Waiting) < MostWaiting && !c.NoQueue {
		d.Waiting = append(d.Waiting, Mark{Owner: c.Owner, Mode: c.Mode, Client: c.Client})
	}
	out := d.refusal(c, now)
	out.Queued = d.ahead(c.Owner) < len(d.Waiting)
	out.RetryAfter = max(d.ReadyAt(c).Sub(now), 0)
	return out
}

// ahead returns how many Marks are before that of an owner: all if it has none.
func (d *Document) ahead(owner string) int {
	i := slices.IndexFunc(d.Waiting, func(m Mark) bool { return m.Owner == owner })
	if i < 0 {
		return len(d.Waiting)
	}
	return i
}

// overtaken returns the owners that c would overtake if it were granted now.
func (d *Document) overtaken(c driver.Claim) (owners []string) {
	room := 0 // how many others may be granted, and c after them
	if KindOf(c) == Semaphore {
		room = max(d.Free(), 1) - 1
	}
	for _, m := range d.Waiting[:d.ahead(c.Owner)] {
		switch {
		case c.Mode == driver.Shared && (m.Mode == driver.Shared || len(d.Grants) > 0):
		case room > 0:
			room--
		default:
			owners = append(owners, m.Owner)
		}
	}
	return owners
}

// turn returns from when on a claim may be granted that overtakes n others.
func (d *Document) turn(n int) time.Time { return d.Freed.Add(time.Duration(min(n, turnsMost)) * Turn) }

// ReadyAt returns from when on another TryInTurn of c may have another answer, although nobody
// changes the Document: the name is free for c, or c has lost its place or its Mark. If that is now,
// another TryInTurn has another answer. If it is later, it may be too early. Purge comes before
// ReadyAt.
func (d *Document) ReadyAt(c driver.Claim) time.Time {
	if c.Fair {
		return d.placeReadyAt(c)
	}
	if d.ahead(c.Owner) == len(d.Waiting) && len(d.Waiting) < MostWaiting && !c.NoQueue && len(d.Grants)+len(d.Waiting) > 0 {
		return time.Time{}
	}
	turns := d.turn(len(d.overtaken(c))).Sub(d.Freed)
	return later(d.Freed, d.roomAt(c)).Add(turns)
}

// placeReadyAt returns ReadyAt of a fair claim.
func (d *Document) placeReadyAt(c driver.Claim) (at time.Time) {
	i := d.Position(c.Owner)
	if i < 0 && !c.NoQueue {
		return time.Time{}
	}
	if i < 0 {
		i = len(d.Queue)
	}
	for _, p := range d.Queue[:i] {
		at = later(at, p.Expires)
	}
	return later(at, d.roomAt(c))
}

// roomAt returns when there is room for c beside the grants, if nothing is renewed or released. The
// zero time means that there is room.
func (d *Document) roomAt(c driver.Claim) (at time.Time) {
	if d.admits(c) || d.beside(c) {
		return at
	}
	if d.Kind != Semaphore {
		for _, g := range d.Grants {
			at = later(at, g.Expires)
		}
		return at
	}
	ends := make([]time.Time, len(d.Grants))
	for i, g := range d.Grants {
		ends[i] = g.Expires
	}
	slices.SortFunc(ends, time.Time.Compare)
	if over := len(d.Grants) - d.Permits; over < len(ends) {
		return ends[over]
	}
	return time.Unix(1<<40, 0) // there are no permits
}

// Dismiss ends all grants of a client that has died, and removes its places and its Marks. A name that
// stays taken for Claim.AtLeast after a release stays so. Dismiss reports whether there was anything.
func (d *Document) Dismiss(client string, now time.Time) bool {
	of := func(other string) bool { return client != "" && other == client }
	grants, places, marks := len(d.Grants), len(d.Queue), len(d.Waiting)
	d.Grants = slices.DeleteFunc(d.Grants, func(g Grant) bool { return of(g.Client) && !driver.Kept(g.Owner) })
	if len(d.Grants) < grants {
		d.free(now)
	}
	d.dequeue(func(p Place) bool { return of(p.Client) })
	d.Waiting = slices.DeleteFunc(d.Waiting, func(m Mark) bool { return of(m.Client) })
	d.tidy()
	return len(d.Grants) < grants || len(d.Queue) < places || len(d.Waiting) < marks
}

// Clients returns the clients with a grant, a place or a Mark.
func (d *Document) Clients() []string {
	var all []string
	for _, g := range d.Grants {
		all = append(all, g.Client)
	}
	for _, p := range d.Queue {
		all = append(all, p.Client)
	}
	for _, m := range d.Waiting {
		all = append(all, m.Client)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(client string) bool { return client == "" })
}

// unmark removes the Mark of an owner, and reports whether there was one.
func (d *Document) unmark(owner string) bool {
	before := len(d.Waiting)
	d.Waiting = slices.DeleteFunc(d.Waiting, func(m Mark) bool { return m.Owner == owner })
	return len(d.Waiting) < before
}

// Next reports whether no other claim is before c: the next grant is for c, if c asks in time.
func (d *Document) Next(c driver.Claim) bool {
	if c.Fair {
		return d.Position(c.Owner) == 0
	}
	return len(d.Waiting) > 0 && d.Waiting[0].Owner == c.Owner
}
