package sim

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// makeFaults makes faults until the work is over, and then ends all faults.
func (s *simulation) makeFaults() {
	if s.faultEvery == 0 {
		return
	}
	var ends []func()
	for {
		select {
		case <-s.workIsOver:
			for _, end := range ends {
				end()
			}
			return
		case <-time.After(s.below(2 * s.faultEvery)):
		}
		d, end := s.fault()
		if end == nil {
			continue
		}
		ends = append(ends, end)
		s.mu.Lock()
		s.counts["faults"]++
		if until := time.Now().Add(d); until.After(s.troubleUntil) {
			s.troubleUntil = until
		}
		s.mu.Unlock()
		time.AfterFunc(d, end)
	}
}

// fault begins one random fault. It returns how long the fault must last, and the function that
// ends it. That function is nil if no fault was made that has to end.
func (s *simulation) fault() (d time.Duration, end func()) {
	p := s.processes[s.random.IntN(len(s.processes))] // only faults change them
	d = s.below([]time.Duration{s.ttl / 2, s.ttl * 3 / 2, s.ttl * 5 / 2}[s.random.IntN(3)])
	kind := s.random.IntN(14)
	if s.onlyForces {
		kind = 12
	}
	if s.random.IntN(3) == 0 {
		s.awaitRelease(p, s.faultEvery)
	}
	switch {
	case s.many > 0:
		time.Sleep(s.ttl)
		d = min(d, 2*time.Second)
		return d, s.standStill("the store", &s.stopped, d)
	case kind < 6:
		return d, s.network(p.link, kind, d)
	case kind < 8:
		return d, s.standStill("the store", &s.stopped, d)
	case kind == 8 && s.stops:
		return d, s.standStill(fmt.Sprint("p", p.id), &p.link.stopped, d)
	case kind == 9 && s.crashes:
		s.replace(p)
		s.crash(p)
		return 0, func() {}
	case kind == 10 && s.forgets:
		s.note("the store forgets")
		s.takeAway(s.names...)
		s.store.Forget(func() bool { return s.random.IntN(2) == 0 })
		return 0, func() {}
	case kind == 11 && s.forgets:
		return d / 4, s.goBack(d / 4)
	case kind == 12 && s.forces:
		s.force(s.names[s.random.IntN(len(s.names))])
	case kind == 13 && s.leaves:
		s.replace(p)
		go s.leave(p)
	}
	return 0, nil
}

// awaitRelease waits until a worker of p releases a lock, and then for a moment in which the
// release is on its way, or its answer, or the try that follows. It returns after the time
// `limit` if no worker does.
func (s *simulation) awaitRelease(p *process, limit time.Duration) {
	select {
	case <-p.released:
		time.Sleep(s.below(4 * s.latency))
	case <-p.ctx.Done():
	case <-time.After(limit):
	case <-s.workIsOver:
	}
}

// goBack records the state of the store. The store returns to that state when `end` is called,
// after the time d, as in a failover that forgets the last writes: see "failover" and
// "promoted" in docs/guarantees.md. `end` is nil if the store has no such failover.
func (s *simulation) goBack(d time.Duration) (end func()) {
	forget := s.store.Remember()
	if forget == nil {
		return nil
	}
	return sync.OnceFunc(func() {
		s.note("the store forgets the last %v", d)
		s.takeAway(s.names...)
		forget()
	})
}

// force ends a hold of t, as an operator does, and checks that the holder is notified in time:
// see "The holder is notified of a loss" in docs/guarantees.md.
func (s *simulation) force(t *target) {
	s.takeAway(t)
	s.mu.Lock()
	holds := t.holds
	s.mu.Unlock()
	forced := s.store.Force(t.name)
	s.note("%s is forced: %v", t.name, forced)
	if !forced || len(holds) != 1 || holds[0].side != exclusive {
		return
	}
	h, within := holds[0], s.ttl/2 // with the time of a call that is sent twice
	if h.lease+h.atMost > 0 {
		within = max(within, 2*time.Second+s.ttl/6-time.Since(h.since))
	}
	time.AfterFunc(within, func() {
		calm := s.calm() && s.quick()
		s.mu.Lock()
		defer s.mu.Unlock()
		if calm && slices.Contains(t.holds, h) && h.goesOn() {
			s.violate("%s was forced %v ago, and Err is nil", t.name, within)
		}
	})
}

// network disturbs a link: the link is cut, in one direction or both, loses messages or is slow.
func (s *simulation) network(l *Link, kind int, d time.Duration) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case kind < 4:
		l.cutThere, l.cutBack, l.resets = kind != 1, kind != 0, s.random.IntN(5) < 2
		s.note("p%d is cut off for %v: there %v, back %v, with errors %v", l.id, d, l.cutThere, l.cutBack, l.resets)
	case kind == 4:
		l.loss = 0.2 + s.random.Float64()*0.4
		s.note("p%d loses messages for %v", l.id, d)
	default:
		l.slow = s.below(s.ttl / 2)
		s.note("p%d is slower by up to %v for %v", l.id, l.slow, d)
	}
	return func() {
		s.mu.Lock()
		l.cutThere, l.cutBack, l.resets, l.loss, l.slow = false, false, false, 0, 0
		s.mu.Unlock()
		s.note("p%d has its network again", l.id)
	}
}

// standStill stops the store or a process for the time d: its messages wait at the gate until
// `end` is called. who is its name in the history. `end` is nil if the gate is closed already.
func (s *simulation) standStill(who string, gate *chan struct{}, d time.Duration) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *gate != nil {
		return nil
	}
	closed := make(chan struct{})
	*gate = closed
	s.note("%s stands still for %v", who, d)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		*gate = nil
		s.mu.Unlock()
		close(closed)
		s.note("%s goes on", who)
	})
}
