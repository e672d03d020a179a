package sim

import (
	"slices"
	"time"
)

// A name that is free while somebody waits for it must soon have a holder: see "is free and
// somebody waits for it" in docs/guarantees.md. The simulation looks at the store after each
// call, so it knows since when a name is free. A name counts as taken while the store has a
// holder of it, or keeps it for AtLeast, and while a worker thinks that it holds the name.

// waits records that the call r waits for its name. The result `over` must be called when the
// call returns.
func (s *simulation) waits(r *request) (over func()) {
	if r.try || s.many > 0 {
		return func() {}
	}
	s.mu.Lock()
	r.target.waiting = append(r.target.waiting, r)
	s.mu.Unlock()
	s.look(r.target)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.target.waiting = slices.DeleteFunc(r.target.waiting, func(o *request) bool { return o == r })
		if len(r.target.waiting) == 0 {
			r.target.freeSince = time.Time{}
		}
	}
}

// goesOn reports whether the caller of r still waits: its process lives, and its time is not over.
func (r *request) goesOn() bool {
	return r.by.alive() && r.ctx.Err() == nil && (r.wait < 0 || time.Since(r.began) < r.wait)
}

// tookSeveral records the end of a call for several names, one of which is t.
func (s *simulation) tookSeveral(t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.several--
}

// lookAtAll looks at all names after a call was executed.
func (s *simulation) lookAtAll() {
	for _, t := range s.names {
		s.look(t)
	}
}

// look records whether a name that somebody waits for is free now.
func (s *simulation) look(t *target) {
	s.mu.Lock()
	awaited := len(t.waiting) > 0
	s.mu.Unlock()
	if !awaited {
		return
	}
	n, all := s.store.Holders(t.name) // without the mutex, which a store may need
	s.mu.Lock()
	defer s.mu.Unlock()
	believed := 0
	for _, h := range t.holds {
		t.noteEnd(h)
		kept := !all && h.lease+h.atMost > 0 // a fixed end is one margin after the loss
		if h.goesOn() || kept && h.by.alive() {
			believed++
		}
	}
	unknown := !all && (t.several > 0 || time.Now().Before(t.droppedUntil))
	switch {
	case unknown, max(n, believed) >= max(t.permits, 1):
		t.freeSince = time.Time{}
	case t.freeSince.IsZero():
		t.freeSince = time.Now()
	}
}

// noteEnd records if a hold has ended before its worker released it. The mutex of the simulation
// is held.
func (t *target) noteEnd(h *hold) {
	if h.lock.Err() != nil && time.Now().After(t.unreleased) {
		t.unreleased = time.Now()
	}
}

// checkLiveness looks at the names again and again until all workers have ended.
func (s *simulation) checkLiveness() {
	if s.many > 0 {
		return
	}
	for {
		select {
		case <-s.workersEnded:
			return
		case <-time.After(s.takenWithin() / 4):
		}
		for _, t := range s.names {
			s.look(t)
			s.checkTaken(t)
		}
	}
}

// checkTaken checks that a name is not free for too long.
func (s *simulation) checkTaken(t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.freeSince.IsZero() {
		return
	}
	var first *request
	for _, r := range t.waiting {
		if r.goesOn() && (first == nil || r.began.Before(first.began)) {
			first = r
		}
	}
	if first == nil {
		return
	}
	since := t.freeSince
	if first.began.After(since) {
		since = first.began
	}
	// A process whose hold was taken away lets its other callers wait until it knows of that.
	calm := s.calmSince(since, s.troubleUntil) && s.calmSince(since, s.overdue) && s.calmSince(since, t.unreleased) && since.Sub(t.takenAway) > s.ttl
	if free := time.Since(since); calm && free > s.takenWithin() {
		s.violate("%s is free, and %v waits for it, since %v", t.name, first.by, free)
		return
	}
	for _, trouble := range []time.Time{s.disturbed, s.troubleUntil, s.overdue, t.takenAway} {
		if trouble.After(since) {
			since = trouble
		}
	}
	if free := time.Since(since); free > s.takenAfterFault() {
		s.violate("%s is free, and %v waits for it, since %v after the last fault", t.name, first.by, free)
	}
}

// takenWithin returns how long a name may be free without a fault while somebody waits for it.
// That is the time of a notification and the tries that follow, and of the pauses with which
// waiters let others go first. The re-ask of a waiter, once a second, comes later.
func (s *simulation) takenWithin() time.Duration {
	return 100*time.Millisecond + time.Duration(4*s.attempts())*s.slowest()
}

// slowest returns the longest time that a message needs without a fault.
func (s *simulation) slowest() time.Duration {
	return s.onGrid(s.latency*3/2+s.spike) + s.latency
}

// takenAfterFault returns how long a name may be free after the effect of a fault has begun to
// end. Calls whose message was lost are repeated in that time, and each waiter has asked again.
// If waiters have places in the store, the places of those must end that are gone.
func (s *simulation) takenAfterFault() time.Duration {
	return calmAfter + 2*time.Second + s.ttl + s.longest() + s.takenWithin()
}
