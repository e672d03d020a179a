package demo

import "time"

// phase is how far a process has come with its request for the lock.
type phase string

const (
	waits   phase = "waits"   // it has asked for the lock
	holds   phase = "holds"   // it has the lock
	overdue phase = "overdue" // its lease has ended in the store, and it has not noticed
	aware   phase = "aware"   // it has noticed that it lost the lock
	ended   phase = "ended"   // it has released the lock, or is dead
)

// state is the state of a process.
type state struct {
	phase       phase
	paused, cut bool
	token       uint64 // of its lock; 0 without a lock
}

// after returns the state after an event.
func (s state) after(e event) state {
	switch e.kind {
	case held:
		s.phase, s.token = holds, e.token
	case leaseOver:
		if s.phase == holds {
			s.phase = overdue
		}
	case lost:
		s.phase = aware
	case unlocked, killed, failed, died, gone:
		s.phase = ended
	case paused, resumed:
		s.paused = e.kind == paused
	case cutOff, connected:
		s.cut = e.kind == cutOff
	}
	return s
}

// label returns what a process does in this state, in a long, a shorter and a short form.
func (s state) label() []string {
	switch {
	case s.phase == overdue && s.paused:
		return []string{"paused, lease over", "lease over", "over"}
	case s.phase == overdue:
		return []string{"works without the lock", "lease over", "over"}
	case s.phase == aware && s.paused:
		return []string{"paused, lock lost", "lock lost", "lost"}
	case s.phase == aware && s.cut:
		return []string{"cut off, lock lost", "lock lost", "lost"}
	case s.phase == aware:
		return []string{"lock lost", "lost"}
	case s.phase == holds && s.paused:
		return []string{"holds, but is paused", "paused"}
	case s.phase == holds && s.cut:
		return []string{"holds, but is cut off", "cut off"}
	case s.phase == holds:
		return []string{"holds the lock", "holds"}
	case s.paused:
		return []string{"waits, paused", "paused"}
	case s.cut:
		return []string{"waits, cut off", "cut off"}
	}
	return []string{"waits"}
}

// look returns the name of the fill of a segment in this state.
func (s state) look() string {
	switch {
	case s.phase == overdue, s.phase == aware:
		return "over"
	case s.phase == holds && (s.paused || s.cut):
		return "stuck"
	case s.phase == holds:
		return "holds"
	}
	return "waits"
}

// segment is a time in which the state of a process stays the same.
type segment struct {
	from, to time.Time
	state    state
	open     bool // the state lasts until the present moment
}

// segments returns what a process did until the time `now`, without a gap, in order. Each
// segment has another state than the one before it.
func (r *run) segments(now time.Time) (all []segment) {
	s, from := r.first, r.at
	end := func(at time.Time, open bool) {
		if s.phase != ended && from.Before(at) {
			all = append(all, segment{from, at, s, open})
		}
		from = at
	}
	for _, e := range r.events {
		if next := s.after(e); next != s {
			end(e.at, false)
			s = next
		}
	}
	end(now, true)
	return all
}

// hold is a time in which the store named the same holder of the lock, or did not answer.
type hold struct {
	sample              // of the beginning
	from, to  time.Time // to is zero if the hold goes on
	renewals  []renewal // the first one is the grant
	ranOut    bool      // the lease has ended without a release
	projected time.Time // when the lease ends without another renewal; zero unless the hold goes on
}

// renewal is a moment from which a lease had a later end than before.
type renewal struct{ at, until time.Time }

// sameLease is the largest difference between two ends of a lease that the same renewal has
// caused: the store measures in ms, and its answer takes a moment.
const sameLease = 100 * time.Millisecond

// holdsOf returns the holds that the samples show. A holder renews for the time `lease`.
func holdsOf(samples []sample, lease time.Duration) (all []hold) {
	for _, s := range samples {
		var last *hold
		if len(all) > 0 && all[len(all)-1].to.IsZero() {
			last = &all[len(all)-1]
		}
		if last != nil && (last.owner != s.owner || last.failed != s.failed) {
			last.end(s)
			last = nil
		}
		switch {
		case s.owner == "" && !s.failed:
		case last == nil:
			all = append(all, hold{sample: s, from: s.at, renewals: []renewal{{s.at, s.until}}})
		case s.until.Sub(last.until()) > sameLease:
			at := s.until.Add(-lease)
			if before := last.renewals[len(last.renewals)-1].at; at.Before(before) || at.After(s.at) {
				at = s.at
			}
			last.renewals = append(last.renewals, renewal{at, s.until})
		}
	}
	if len(all) > 0 && all[len(all)-1].to.IsZero() {
		last := &all[len(all)-1]
		last.projected = last.until()
	}
	return all
}

// until returns the end of the lease after the last renewal.
func (h *hold) until() time.Time { return h.renewals[len(h.renewals)-1].until }

// end ends a hold before the sample `next`, which names another holder.
func (h *hold) end(next sample) {
	h.to = next.at
	if h.failed || next.failed || h.until().After(next.at.Add(sameLease)) {
		return
	}
	h.ranOut = true
	if h.until().Before(next.at) {
		h.to = h.until()
	}
}
