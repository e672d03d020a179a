package sim

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast"
)

// hold is what a worker has reason to think that it holds.
type hold struct {
	name    string
	side    side
	first   time.Time // when the store granted what a process has passed on since
	permits int       // of the semaphore
	by      *worker
	lock    *holdfast.Lock
	ctx     context.Context
	cancel  context.CancelFunc
	since   time.Time

	lease, atMost, atLeast time.Duration // the options; 0 without
}

type side byte

const (
	exclusive side = 'x'
	reader    side = 'r'
	permit    side = 'p'
)

// goesOn says that the worker was not notified of an end.
func (h *hold) goesOn() bool {
	return h.by.process.alive() && (h.lock.Err() == nil || h.ctx.Err() == nil)
}

// ledger is what the checks compare. The mutex of the simulation guards it.
type ledger struct {
	holds     map[string][]*hold
	tokens    map[string]uint64    // the highest, by name and side
	granted   map[string]time.Time // the last time
	ended     map[string]*hold     // the last one
	keptUntil map[string]time.Time // by AtLeast

	// takenAway is when the store forgot a name, or a person forced it: holders learn of that
	// later, see "forced unlock" and "data loss" in docs/guarantees.md.
	takenAway map[string]time.Time
}

// holdsOf returns the holds of a name.
func (s *simulation) holdsOf(name string) []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds[name]
}

// excused says that a name was taken away within d.
func (s *simulation) excused(name string, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.takenAway[name]
	return ok && time.Since(at) <= d
}

// takeAway records that a name, or with "" each, is taken from its holder now.
func (s *simulation) takeAway(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.names {
		if name == "" || t.name == name {
			s.takenAway[t.name] = time.Now()
			delete(s.keptUntil, t.name)
		}
	}
}

// begin records a hold that was granted, and compares it with the others.
func (s *simulation) begin(h *hold) {
	ctx, cancel := context.WithCancel(context.Background())
	h.ctx, h.cancel, h.since = h.lock.Context(ctx), cancel, time.Now()
	keep(h.lock)
	s.note("p%d w%d has %s %c, token %d", h.by.process.id, h.by.id, h.name, h.side, h.lock.Token())
	s.mu.Lock()
	others := slices.Clone(s.holds[h.name])
	s.holds[h.name] = append(others[:len(others):len(others)], h)
	kept := s.keptUntil[h.name]
	s.granted[h.name] = h.since
	h.first = h.since
	if last := s.ended[h.name]; last != nil && last.by.process == h.by.process && last.lock.Token()+1 == h.lock.Token() {
		h.first = last.first
	}
	s.counts["grants"]++
	s.mu.Unlock()
	excused := s.excused(h.name, s.ttl)
	if early := time.Until(kept); early > time.Millisecond && !excused {
		s.violate("%s is granted %v before the end of AtLeast", h.name, early)
	}
	s.checkAlone(h, others, excused)
	s.checkToken(h, excused || s.excused(h.name, time.Since(h.first)))
}

// checkAlone compares a hold with others of its name.
func (s *simulation) checkAlone(h *hold, others []*hold, excused bool) {
	n := 1
	for _, o := range others {
		if !o.goesOn() {
			continue
		}
		n++
		conflict := h.side != permit && (h.side == exclusive || o.side == exclusive)
		if conflict && !excused && (o.lease == 0 || !s.excused(h.name, time.Since(o.since)+s.ttl)) { // it is checked each third of the TTL only
			s.violate("two holders of %s: p%d w%d %c since %v, Err %v, context %v; p%d w%d %c", h.name,
				o.by.process.id, o.by.id, o.side, time.Since(o.since), o.lock.Err(), o.ctx.Err(), h.by.process.id, h.by.id, h.side)
		}
	}
	if h.side == permit && n > h.permits && !s.excused(h.name, 2*s.ttl) {
		s.violate("%d holders of %d permits of %s", n, h.permits, h.name)
	}
}

// checkToken checks that tokens rise; those of readers only over writers.
func (s *simulation) checkToken(h *hold, excused bool) {
	token := h.lock.Token()
	s.mu.Lock()
	lastWriter, lastReader := s.tokens[h.name+"x"], s.tokens[h.name+"r"]
	of := h.name + string(h.side)
	s.tokens[of] = max(s.tokens[of], token)
	s.mu.Unlock()
	switch {
	case token == 0 || excused || h.side == permit:
	case token <= lastWriter, h.side == exclusive && token <= lastReader:
		s.violate("token %d of %s, side %c, after %d of a writer and %d of a reader", token, h.name, h.side, lastWriter, lastReader)
	}
}

// end removes a hold.
func (s *simulation) end(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[h.name] = h
	s.holds[h.name] = slices.DeleteFunc(slices.Clone(s.holds[h.name]), func(o *hold) bool { return o == h })
}

// unlock ends a hold, and checks what Unlock says.
func (s *simulation) unlock(h *hold, unlock func() error) {
	state := h.lock.Err()
	s.end(h)
	if !h.by.process.alive() { // nobody calls anything
		h.cancel()
		return
	}
	if over := time.Since(h.since) - h.atMost; h.atMost > 0 && over > time.Millisecond && state == nil {
		s.violate("%s is held %v longer than AtMost(%v)", h.name, over, h.atMost)
	}
	left, began := h.lock.Remaining(), time.Now()
	err := unlock()
	h.cancel()
	if !h.by.process.alive() {
		return
	}
	s.note("p%d w%d unlocked %s: %v", h.by.process.id, h.by.id, h.name, err)
	s.checkUnlock(h, state, err, left, time.Since(began))
}

// keep has the garbage collector forget a Lock: its clean-up would not run in the bubble.
func keep(lock *holdfast.Lock) {
	(*runtime.Cleanup)(reflect.ValueOf(lock).Elem().FieldByName("net").Addr().UnsafePointer()).Stop()
}

// drop ends a hold as the garbage collector does where nothing has the Lock any more.
func (s *simulation) drop(h *hold) {
	s.end(h)
	h.cancel()
	h.by.process.dropped.Store(true)
	dropped(reflect.ValueOf(h.lock).Elem().FieldByName("hold").UnsafePointer())
	s.note("p%d w%d dropped %s", h.by.process.id, h.by.id, h.name)
	if h.lock.Err() == nil {
		s.violate("Err of %s is nil after it was dropped", h.name)
	}
}

//go:linkname dropped github.com/holdfast-go/holdfast.(*hold).dropped
func dropped(unsafe.Pointer)

// keepName records until when a name is kept that was unlocked, by a clock of the store that
// may be faster. It may have been granted already.
func (s *simulation) keepName(h *hold) {
	until := h.since.Add(h.atLeast - time.Duration(float64(h.atLeast)*s.drift))
	if s.excused(h.name, time.Since(h.since)+s.ttl) { // the store may have forgotten the hold, or its Unlock
		return
	}
	s.mu.Lock()
	next, early := s.granted[h.name], time.Duration(0)
	if next.After(h.since) {
		early = until.Sub(next)
	} else {
		s.keptUntil[h.name] = until
	}
	s.mu.Unlock()
	if early > time.Millisecond {
		s.violate("%s was granted %v before the end of AtLeast", h.name, early)
	}
}

func (s *simulation) checkUnlock(h *hold, state, err error, left, took time.Duration) {
	excused := s.excused(h.name, s.ttl+took) || h.lease > 0 && s.excused(h.name, time.Since(h.since))
	if err == nil && h.atLeast > 0 { // else it is not certain that the store knows of it
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
		if !excused && s.calm() && h.lease+h.atMost == 0 {
			s.violate("%s was lost although nothing was wrong: %v", h.name, err)
		}
	default:
		if s.calm() && s.quick() && h.lease+h.atMost == 0 {
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
