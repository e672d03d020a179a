package main

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// observation is the last polled state of a name.
type observation struct {
	admin.Record
	at    time.Time
	since map[string]time.Time     // when each owner was first seen
	span  map[string]time.Duration // the longest lease of each owner that was seen
}

// differences returns what happened between two looks: first who is gone, then
// who came. present says that what is new has been there before.
func (s *observation) differences(before *observation, present bool) []change {
	var changes []change
	for _, h := range before.ended(s.Record) {
		changes = append(changes, before.over(h, s.at))
	}
	had := map[string]admin.Hold{}
	for _, h := range before.Holds {
		had[h.Owner] = h
	}
	s.span = map[string]time.Duration{}
	for _, h := range s.Holds {
		old, known := had[h.Owner]
		since, seenBefore := before.since[h.Owner]
		if !seenBefore {
			since = s.at.Add(-h.HeldFor)
		}
		s.since[h.Owner] = since
		span := before.span[h.Owner]
		s.span[h.Owner] = max(span, h.Remaining)
		if known && late(old, h, span) {
			c := s.change("renewed-late", h)
			c.LeaseMS = old.Remaining.Milliseconds()
			changes = append(changes, c)
		}
		switch {
		case !known && before.Holders <= len(before.Holds):
			event := "acquired"
			if present {
				event = "held"
			}
			changes = append(changes, s.change(event, h))
		case known && old.Holds != h.Holds:
			changes = append(changes, s.change("count", h))
		}
	}
	if s.Waiting != before.Waiting {
		changes = append(changes, change{At: s.at, Event: "waiting", Name: s.Name, Kind: string(s.Kind), Waiting: &s.Waiting})
	}
	return changes
}

// ended returns the holds of s that r does not have any more, as far as r shows all.
func (s *observation) ended(r admin.Record) []admin.Hold {
	if r.Holders > len(r.Holds) {
		return nil
	}
	var over []admin.Hold
	for _, h := range s.Holds {
		if !slices.ContainsFunc(r.Holds, func(o admin.Hold) bool { return o.Owner == h.Owner }) {
			over = append(over, h)
		}
	}
	return over
}

// late reports that a lease of which at most span was ever seen has risen after
// less than a third of it was left: a renewal is due when two thirds are.
func late(old, h admin.Hold, span time.Duration) bool {
	same := old.Token == h.Token || old.Token == 0 // it is reported some seconds after the grant
	return same && old.Remaining >= 0 && old.Remaining < span/3 && h.Remaining > old.Remaining
}

func (s *observation) change(event string, h admin.Hold) change {
	return change{
		At: s.at, Event: event, Name: s.Name, Kind: string(s.Kind), Who: person(h.Owner, h.Note, h.Client),
		Owner: h.Owner, Mode: h.Mode.String(), Count: h.Holds,
	}
}

// over says how a hold ended that is not there any more at the time now.
func (s *observation) over(h admin.Hold, now time.Time) change {
	c := s.change("released", h)
	c.At = now
	if s.lapsed(h, now) {
		c.Event = "expired"
	}
	c.HeldMS = now.Sub(s.since[h.Owner]).Milliseconds()
	return c
}

// lapsed reports that the lease of h, as it was when s was seen, is over by now.
func (s *observation) lapsed(h admin.Hold, now time.Time) bool {
	return h.Remaining >= 0 && s.at.Add(h.Remaining).Before(now)
}
