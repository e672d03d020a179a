package dash

import "time"

// What is seen is seen late, and that a hold is over its holder may notice later
// still, while the next holder reports at once that it has the lock. The history puts
// an end where it was in the store: before the grant that it made way for.

// exactly reports that both are about the same hold, and not only may be.
func (s *happening) exactly(o *happening) bool {
	return s.about(o) && (s.owner != "" && s.owner == o.owner || s.Token != 0 && s.Token == o.Token)
}

// movable reports that s is an end which may have been earlier than its time says.
// That of a release which its holder reports is right: where another has the lock by
// then, two had it at once, and that is not to be hidden.
func (s *happening) movable() bool {
	return s.ends() && (!s.told || s.Kind == happenedForce || s.Kind == happenedLose)
}

// madeWayFor reports that the hold which ended with s must have been over when
// another, granted with a, began: one of the two stands nobody beside it.
func (s *happening) madeWayFor(a *happening) bool {
	switch {
	case !s.movable() || a.Kind != happenedAcquire || s.At.Before(a.At):
		return false
	case s.owner == "" || a.owner == "" || s.owner == a.owner:
		return false
	case !a.alone && (!s.alone || s.client == a.client): // who writes may read as well
		return false
	case s.Token != 0 && a.Token != 0:
		return s.Token < a.Token
	case s.Held > 0:
		return s.At.Add(-s.Held).Before(a.At)
	default:
		return s.near(a) // the client that forced it did not know since when it was held
	}
}

// moveBefore has the end s happen just before at.
func (s *happening) moveBefore(at time.Time) {
	late := s.At.Sub(at.Add(-1))
	s.At = s.At.Add(-late)
	s.Held = max(0, s.Held-late)
	if s.Kind == happenedLose {
		s.Late += late
	}
}

// settle puts s where it belongs among what is known of its name, and what is known
// where s shows that it belongs. The mutex is held.
func (h *History) settle(s *happening) {
	if !s.movable() && s.Kind != happenedAcquire {
		return
	}
	var first *happening // the earliest grant that s made way for
	h.latest(s.Name, func(o *happening) bool {
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
