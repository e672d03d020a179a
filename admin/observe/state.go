package observe

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// jitter is the largest difference between two answers of the store about the end of the same
// lease.
const jitter = 400 * time.Millisecond

// State is the known state of one name. The Observer replaces a State, and never changes it.
type State struct {
	admin.Record
	Holds []Hold               // the holds of the Record, with what earlier polls have shown
	Waits map[string]time.Time // by owner: when each waiter of the queue was first found
	Seen  time.Time            // when the store last answered with a record of the name
	Asked time.Time            // when the name was last polled, also if the store could not read the name
}

// Hold is a hold with what the polls have shown about this hold.
type Hold struct {
	admin.Hold
	Since      time.Time     // when the hold was granted, or first found
	Exact      bool          // the store reported Since
	Ends       time.Time     // when the lease ends unless it is renewed; zero if the lease has no end, or if UnknownEnd is true
	UnknownEnd bool          // the lease ends, but the store does not report when
	Span       time.Duration // the longest rest of the lease that a poll has shown
	Renewals   int           // how many renewals the polls have shown
}

// next returns the State that replaces s. The new State contains the record r, with which the
// store answered at the time `now`.
func (s State) next(now time.Time, r admin.Record) State {
	n := State{Record: r, Seen: now, Asked: now, Holds: make([]Hold, len(r.Holds))}
	for i, h := range r.Holds {
		before, had := s.Hold(h)
		n.Holds[i] = before.next(now, h, had)
	}
	if len(r.Waiters) > 0 {
		n.Waits = make(map[string]time.Time, len(r.Waiters))
	}
	for _, w := range r.Waiters {
		since, had := s.Waits[w.Owner]
		if !had {
			since = now
		}
		n.Waits[w.Owner] = since
	}
	return n
}

// Hold returns what the polls have shown of the hold h. It returns false if s does not have
// h.
func (s State) Hold(h admin.Hold) (Hold, bool) {
	for _, o := range s.Holds {
		if same(o.Hold, h) {
			return o, true
		}
	}
	return Hold{}, false
}

// same reports whether two answers of the store are about one hold. If the mode or the token
// differs, the owner has another hold. A token of 0 is unknown, and counts as equal to every
// token: the store may learn the token late, and may lose it.
func same(a, b admin.Hold) bool {
	return a.Owner == b.Owner && a.Mode == b.Mode && (a.Token == b.Token || a.Token == 0 || b.Token == 0)
}

// next returns the Hold that replaces o. The new Hold contains h, with which the store answered
// at the time `now`. If `had` is false, the hold is new, and o is empty.
func (o Hold) next(now time.Time, h admin.Hold, had bool) Hold {
	n := o
	if n.Hold = h; !had {
		n.Since = now
	}
	if granted := now.Add(-h.HeldFor); h.HeldFor > 0 && (!n.Exact || granted.Sub(n.Since) > jitter) { // a later grant: another goroutine got the lock
		n.Since, n.Exact = granted, true
	}
	if h.Remaining < 0 {
		n.Ends, n.Span, n.UnknownEnd = time.Time{}, 0, h.Remaining == admin.RemainingUnknown
		return n
	}
	ends := now.Add(h.Remaining)
	if had = had && !o.Ends.IsZero(); had && ends.Sub(o.Ends).Abs() <= jitter {
		ends = o.Ends // the same lease: its shown end must not change
	} else if had && ends.After(o.Ends) {
		n.Renewals++
	}
	n.Ends, n.Span = ends, max(n.Span, h.Remaining)
	return n
}

// expired reports whether the lease, as the last poll showed it, has ended at the time `now`.
func (o Hold) expired(now time.Time) bool {
	return !o.Ends.IsZero() && !now.Before(o.Ends.Add(-jitter))
}

// late reports whether less than a third of the lease was left at the last poll. A renewal is
// due when two thirds are left, so a renewal after that poll is late.
func (o Hold) late() bool { return o.Remaining >= 0 && o.Remaining < o.Span/3 }

// ended returns the holds of s that are missing in the new record r. It returns nil if r does
// not have all holds of the name, or if the store could not read the name.
func (s State) ended(r admin.Record) []Hold {
	if r.Holders > len(r.Holds) || r.Kind == admin.KindUnknown {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Holds), func(h Hold) bool {
		return slices.ContainsFunc(r.Holds, func(still admin.Hold) bool { return same(still, h.Hold) })
	})
}

// changes returns the changes from the old state s to the new state `is`. First come the holds
// that ended, then the holds that began or changed, then the number of waiters. If `present` is
// true, the name was not known and no scan was complete yet. In that case the holds may be old,
// so their changes are of type Held. The parameter `why` has the reasons of forced unlocks.
func (s State) changes(is State, present bool, why map[admin.Ended]string) []Change {
	var list []Change
	for _, h := range s.ended(is.Record) {
		if c := s.end(is, h, why[admin.Ended{Name: is.Name, Owner: h.Owner}]); c.Type == admin.EntryForced || !h.Kept() {
			list = append(list, c)
		}
	}
	for _, h := range is.Holds {
		before, had := s.Hold(h.Hold)
		switch {
		case h.Kept():
		case !had && present:
			list = append(list, is.change(is.Seen, Held, h))
		case !had && s.Holders <= len(s.Holds):
			list = append(list, is.change(h.Since, admin.EntryAcquired, h))
		case !had:
		default:
			list = append(list, is.continued(before, h)...)
		}
	}
	c := Change{Entry: admin.Entry{At: is.Seen, Name: is.Name, Kind: is.Kind}, Waiting: is.Waiting, Listeners: is.Listeners}
	switch {
	case s.Waiting != is.Waiting:
		c.Type = admin.EntryWaiting
		list = append(list, c)
	case max(s.Listeners, 0) != max(is.Listeners, 0):
		c.Type = Listening
		list = append(list, c)
	}
	return list
}

// end returns the change for the end of h, a hold that the old state s has and the new state
// `is` does not have. If a new hold excludes h, the time of the change is the beginning of the
// new hold. If no new hold excludes h, the time of the change is the time of the poll.
func (s State) end(is State, h Hold, reason string) Change {
	at := is.Seen
	for _, n := range is.Holds {
		_, had := s.Hold(n.Hold)
		if !had && (n.Mode == driver.Exclusive || h.Mode == driver.Exclusive) && n.Since.Before(at) && n.Since.After(h.Since) {
			at = n.Since
		}
	}
	c := s.change(at, admin.EntryReleased, h)
	c.HeldFor = at.Sub(h.Since)
	switch {
	case h.expired(is.Seen):
		c.Type = Expired
	case reason != "":
		c.Type, c.Reason = admin.EntryForced, reason
	}
	return c
}

// continued returns the changes of a hold that goes on: a renewal, and a new hold count. The
// parameter `before` is the hold as the previous poll showed it, and h is the hold now. s is
// the new State of the name.
func (s State) continued(before, h Hold) (list []Change) {
	if h.Renewals > before.Renewals {
		c := s.change(s.Seen, Renewed, h)
		if c.Left = before.Remaining; before.late() {
			c.Type = admin.EntryRenewedLate
		}
		list = append(list, c)
	}
	if h.Holds != before.Holds {
		list = append(list, s.change(s.Seen, Counted, h))
	}
	return list
}

func (s State) change(at time.Time, what admin.EntryType, h Hold) Change {
	return Change{Entry: admin.Entry{
		Type: what, At: at, Client: h.Client, Note: h.Note, Name: s.Name, Kind: s.Kind,
		Mode: h.Mode, Token: h.Token, Owner: h.Owner, Count: h.Holds,
	}}
}
