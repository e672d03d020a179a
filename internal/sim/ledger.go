package sim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// hold is a grant that a worker got, until the worker has released or dropped it.
type hold struct {
	request
	side   side
	lock   *holdfast.Lock
	held   context.Context // of the lock
	cancel context.CancelFunc
	since  time.Time
	first  time.Time // began; that of an earlier hold if the process passed it on
}

type side byte

const (
	exclusive side = 'x'
	reader    side = 'r'
	permit    side = 'p'
)

// goesOn reports whether the process of the hold lives, and the worker was not notified of the
// end of the hold.
func (h *hold) goesOn() bool {
	return h.by.alive() && (h.lock.Err() == nil || h.held.Err() == nil)
}

// excused reports whether a fault may have ended the holds of the name, and not longer ago than
// the time d: see takenAway. The mutex is held.
func (t *target) excused(d time.Duration) bool { return time.Since(t.takenAway) <= d }

// takeAway records that a fault may end the holds of names now.
func (s *simulation) takeAway(names ...*target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range names {
		t.takenAway, t.keptUntil = time.Now(), time.Time{}
	}
}

// begin records a hold that was granted, and compares it with the other holds of its name.
func (s *simulation) begin(r request, as side, lock *holdfast.Lock) *hold {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hold{request: r, side: as, lock: lock, held: lock.Context(ctx), cancel: cancel, since: time.Now()}
	s.note("%v has %s %c, token %d", h.by, h.name, h.side, lock.Token())
	defer s.look(r.target)
	s.mu.Lock()
	defer s.mu.Unlock()
	excused := h.excused(s.ttl)
	if early := time.Until(h.keptUntil); early > time.Millisecond && !excused {
		s.violate("%s is granted %v before the end of AtLeast", h.name, early)
	}
	s.checkAlone(h, excused)
	h.first = h.began
	if last := h.ended; last != nil && last.by.process == h.by.process && last.lock.Token()+1 == lock.Token() {
		h.first = last.first
	}
	s.checkToken(h, excused || h.excused(time.Since(h.first)))
	h.target.holds = append(h.target.holds, h)
	h.target.granted = h.since
	h.target.freeSince = time.Time{} // also if a permit is free: somebody has got one now
	s.counts["grants"]++
	return h
}

// checkAlone compares a hold with others of its name.
func (s *simulation) checkAlone(h *hold, excused bool) {
	n := 1
	for _, o := range h.holds {
		if !o.goesOn() {
			continue
		}
		n++
		conflict := h.side != permit && (h.side == exclusive || o.side == exclusive)
		if conflict && !excused && (o.lease == 0 || !h.excused(time.Since(o.since)+s.ttl)) { // it is checked each third of the TTL only
			s.violate("two holders of %s: %v %c since %v, Err %v, context %v; %v %c", h.name,
				o.by, o.side, time.Since(o.since), o.lock.Err(), o.held.Err(), h.by, h.side)
		}
	}
	if h.side == permit && n > h.permits && !h.excused(2*s.ttl) {
		s.violate("%d holders of %d permits of %s", n, h.permits, h.name)
	}
}

// checkToken checks that the token of a hold is larger than those of earlier holds. The token of
// a reader need not be larger than those of earlier readers.
func (s *simulation) checkToken(h *hold, excused bool) {
	t, token := h.target, h.lock.Token()
	switch {
	case token == 0 || excused || h.side == permit:
	case token <= t.writer, h.side == exclusive && token <= t.reader:
		s.violate("token %d of %s, side %c, after %d of a writer and %d of a reader", token, t.name, h.side, t.writer, t.reader)
	}
	if h.side == reader {
		t.reader = max(t.reader, token)
	} else {
		t.writer = max(t.writer, token)
	}
}

// end removes a hold.
func (s *simulation) end(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.drops, h.lock)
	h.target.noteEnd(h)
	h.target.ended = h
	h.target.holds = slices.DeleteFunc(slices.Clone(h.holds), func(o *hold) bool { return o == h })
}

// unlock ends a hold, and checks the result of Unlock.
func (s *simulation) unlock(h *hold) {
	state := h.lock.Err()
	s.end(h)
	defer h.cancel()
	if !h.by.alive() { // nobody calls anything
		return
	}
	if over := time.Since(h.since) - h.atMost; h.atMost > 0 && over > time.Millisecond && state == nil {
		s.violate("%s is held %v longer than AtMost(%v)", h.name, over, h.atMost)
	}
	select {
	case h.by.released <- struct{}{}:
	default:
	}
	left, began := h.lock.Remaining(), time.Now()
	err := h.lock.Unlock()
	if h.by.alive() {
		s.note("%v unlocked %s: %v", h.by, h.name, err)
		s.checkUnlock(h, state, err, left, time.Since(began))
	}
}

// Collected makes a Backend a collect.Collector. Embed it, together with the Backend, in the
// store of a process.
type Collected struct {
	Link *Link
}

// Returned keeps the function that drops a Lock.
func (c Collected) Returned(lock any, drop func()) {
	s := c.Link.process.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drops[lock] = drop
}

// drop ends a hold as the clean-up of its Lock does when no goroutine has the Lock any more.
func (s *simulation) drop(h *hold) {
	s.mu.Lock()
	drop := s.drops[h.lock]
	s.mu.Unlock()
	s.end(h)
	h.cancel()
	h.by.dropped.Store(true)
	drop()
	s.note("%v dropped %s", h.by, h.name)
	s.mu.Lock()
	h.target.droppedUntil = time.Now().Add(s.ttl + s.longest() + h.lease + h.atMost)
	h.target.unreleased = h.target.droppedUntil
	s.mu.Unlock()
	if h.lock.Err() == nil {
		s.violate("Err of %s is nil after it was dropped", h.name)
	}
}

// keepName records until when the name of h must stay taken after its Unlock, for AtLeast. The
// clock of the store may be faster by the drift. If the name was granted again since h began,
// keepName checks that the grant was not too early. The mutex is held.
func (s *simulation) keepName(h *hold) {
	until := h.since.Add(h.atLeast - time.Duration(float64(h.atLeast)*s.drift))
	early := until.Sub(h.granted)
	switch {
	case h.excused(time.Since(h.since) + s.ttl): // the store may have forgotten the hold, or its Unlock
	case !h.granted.After(h.since):
		h.target.keptUntil = until
	case early > time.Millisecond:
		s.violate("%s was granted %v before the end of AtLeast", h.name, early)
	}
}

func (s *simulation) checkUnlock(h *hold, state, err error, left, took time.Duration) {
	calm := s.calm() && h.lease+h.atMost == 0
	s.mu.Lock()
	defer s.mu.Unlock()
	// A fixed lease is not renewed, so only Unlock finds out what the store has forgotten, also
	// between the grant and its answer.
	excused := h.excused(s.ttl+took) || h.lease > 0 && h.excused(time.Since(h.first))
	if err == nil && h.atLeast > 0 { // else the store may not have the release
		s.keepName(h)
	}
	switch {
	case err == nil && state != nil:
		s.violate("Unlock of %s returned nil, Err had said %v", h.name, state)
	case err == nil:
	case errors.Is(err, holdfast.ErrLost):
		if !excused && state == nil && took < left {
			s.violate("Unlock of %s says %v, Err had said nothing, and %v were left", h.name, err, left)
		}
		if !excused && calm {
			s.violate("%s was lost although nothing was wrong: %v", h.name, err)
		}
	default:
		if calm && s.quick() {
			s.violate("Unlock of %s has no answer in calm: %v", h.name, err)
		}
	}
	margin := cmp.Or(s.margin, s.ttl/10)
	if limit := min(3*time.Second, max(left+margin, 20*time.Millisecond)) + 25*time.Millisecond; took > limit {
		s.violate("Unlock of %s took %v, with %v left of its lease", h.name, took, left)
	}
	if h.lock.Err() == nil {
		s.violate("Err is nil after Unlock of %s: %v", h.name, err)
	}
}
