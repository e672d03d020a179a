package dash

import "time"

// Polling finds the end of a hold late, and its holder may notice it later still. The
// next holder reports its grant at once. So the log moves an end to where it was in the
// store: before the grant that could only follow it.

// exactly reports whether both are about the same hold for certain.
func (s *event) exactly(o *event) bool {
	return s.about(o) && (s.owner != "" && s.owner == o.owner || s.Token != 0 && s.Token == o.Token)
}

// movable reports whether s is the end of a hold that may have been earlier than its
// time says. The time of a release that its holder reports is exact. If another holder
// has the lock by then, two held it at once, and the log must not hide that.
func (s *event) movable() bool {
	return s.ends() && (!s.reported || s.Kind == eventForced || s.Kind == eventLost)
}

// madeWayFor reports whether the hold that ended with s must have ended before the
// grant a: at least one of the two holds is exclusive.
func (s *event) madeWayFor(a *event) bool {
	switch {
	case !s.movable() || a.Kind != eventAcquired || s.At.Before(a.At):
		return false
	case s.owner == "" || a.owner == "" || s.owner == a.owner:
		return false
	case !a.alone && (!s.alone || s.client == a.client): // a client that writes may read, too
		return false
	case s.Token != 0 && a.Token != 0:
		return s.Token < a.Token
	case s.Held > 0:
		return s.At.Add(-s.Held).Before(a.At)
	default:
		return s.near(a) // the client that forced it does not know when the hold began
	}
}

// moveBefore sets the time of the end s to just before at.
func (s *event) moveBefore(at time.Time) {
	late := s.At.Sub(at.Add(-1))
	s.At = s.At.Add(-late)
	s.Held = max(0, s.Held-late)
	if s.Kind == eventLost {
		s.Late += late
	}
}

// settle moves s, which is new, before the grant that followed it, and the ends that s
// followed before s. The mutex is held.
func (h *EventLog) settle(s *event) {
	if !s.movable() && s.Kind != eventAcquired {
		return
	}
	var first *event // the earliest grant that s made way for
	h.latest(s.Name, func(o *event) bool {
		if o.madeWayFor(s) {
			o.moveBefore(s.At)
		}
		if s.madeWayFor(o) && (first == nil || o.At.Before(first.At)) {
			first = o
		}
		return true
	})
	if first != nil {
		s.moveBefore(first.At)
	}
}
