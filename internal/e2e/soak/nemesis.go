package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// nemesis breaks things. All that it chooses comes from its seed: each of its
// lanes draws one fault after the other.
type nemesis struct {
	arena   *arena
	workers *workers
	log     io.Writer // of the faults, for people; may be nil
	begin   time.Time

	mu      sync.Mutex
	windows []window
	counts  map[string]int
	overs   int     // failovers
	servers int     // faults of servers
	trouble []error // faults that could not be made or healed
}

// window is the time in which a fault is at work.
type window struct {
	what     string
	from, to int64 // wall clock nanoseconds
	process  int   // which worker has it, -1 if it is the servers
	loses    bool  // the store may forget what it acknowledged
	lost     int64 // loses: until then; to, if the fault does not say
	switched int64 // loses: when another server had taken over, 0 if none does
	name     string
	slots    func(int) bool // loses: of which slots; nil for all
}

// covers says that the fault may have taken a lock of that name away.
func (w window) covers(name string) bool {
	switch {
	case !w.loses:
		return false
	case w.name != "":
		return w.name == name
	case w.slots != nil:
		return w.slots(redistest.Slot(name))
	}
	return true
}

// strike is one fault, as drawn, before the holders are known.
type strike struct {
	*nemesis
	fault
	aimed  bool   // at a process that holds a lock
	place  int    // otherwise: at that worker
	after  bool   // right after the victim has begun to release a lock
	length int    // in sixths of the worker's TTL
	pick   uint64 // whatever else there is to choose
	random *rand.Rand

	victim *member
	name   string // of the lock that the victim holds, "" if none
	window window
}

// fault is a kind of fault. do makes it and ends it; it returns early when the
// context ends, with everything healed.
type fault struct {
	name   string
	weight int
	do     func(*strike, context.Context) error
}

// errNothing says that a fault was not made: there was nothing to break.
var errNothing = errors.New("nothing to break")

// run breaks things until ctx ends, then heals.
func (n *nemesis) run(ctx context.Context, seed uint64) {
	var wg sync.WaitGroup
	for i, faults := range n.lanes() {
		gap := 700 * time.Millisecond
		if i == 0 {
			gap = 1500 * time.Millisecond
		}
		r := randFor(seed, i)
		if i == 0 {
			wg.Go(func() { n.serverLane(ctx, r, faults, gap) })
		} else {
			wg.Go(func() { n.lane(ctx, r, faults, gap) })
		}
	}
	wg.Wait()
	if err := n.arena.heal(); err != nil {
		n.failed(fmt.Errorf("heal: %w", err))
	}
}

// lanes are the faults that happen at the same time: of servers one after the
// other, of workers three at once.
func (n *nemesis) lanes() [][]fault {
	if n.arena.store != nil {
		return [][]fault{storeFaults(), linkFaults(), linkFaults(), linkFaults()}
	}
	return [][]fault{n.serverFaults(), clientFaults(), clientFaults(), clientFaults()}
}

// randFor returns what a lane draws from.
func randFor(seed uint64, lane int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(lane))) }

// serverLane makes one fault of servers after the other. It needs no worker's
// lock: with all of them taken most of the time it would seldom get to strike.
// One failover there is in any case, where there can be one.
func (n *nemesis) serverLane(ctx context.Context, r *rand.Rand, faults []fault, gap time.Duration) {
	end, _ := ctx.Deadline()
	half := time.Until(end) / 2
	before := n.failedOver()
	owed := func() bool { return n.arena.failsOver() && n.failedOver() == before }
	for pause(ctx, time.Duration(r.Int64N(int64(gap)))) {
		s := n.draw(r, faults)
		if owed() && time.Until(end) < half {
			s.fault = fault{"failover", 0, (*strike).failOver}
		}
		if s.aim(); s.victim != nil {
			s.strike(ctx)
		}
	}
	if !owed() {
		return
	}
	s := n.draw(r, faults)
	s.fault = fault{"failover", 0, (*strike).failOver}
	if s.aim(); s.victim != nil {
		s.strike(ctx)
	}
}

// failedOver returns how often another server took over.
func (n *nemesis) failedOver() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.overs
}

// lane makes one fault after the other.
func (n *nemesis) lane(ctx context.Context, r *rand.Rand, faults []fault, gap time.Duration) {
	for pause(ctx, time.Duration(r.Int64N(int64(gap)))) {
		s := n.draw(r, faults)
		s.aim()
		if s.victim == nil || !s.victim.fault.TryLock() {
			continue // somebody else is at work on it
		}
		if s.after {
			s.workers.awaitUnlock(ctx, s.victim.ID())
			pause(ctx, time.Duration(s.random.Int64N(int64(2*time.Millisecond)))) // until the release or its answer is under way
		}
		s.strike(ctx)
		s.victim.fault.Unlock()
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (n *nemesis) draw(r *rand.Rand, faults []fault) *strike {
	sum := 0
	for _, f := range faults {
		sum += f.weight
	}
	k := r.IntN(sum)
	s := &strike{nemesis: n, aimed: r.IntN(2) == 0, after: r.IntN(3) == 0, place: r.IntN(4), length: []int{2, 6, 12}[r.IntN(3)], pick: r.Uint64()}
	s.random = rand.New(rand.NewPCG(s.pick, 0))
	for _, f := range faults {
		if k -= f.weight; k < 0 {
			s.fault = f
			break
		}
	}
	return s
}

// aim chooses the victim.
func (s *strike) aim() {
	if h, ok := s.workers.holder(s.random); s.aimed && ok {
		s.victim, s.name = s.workers.withID(h.process), h.name
	}
	if s.victim == nil {
		s.victim = s.workers.at(s.place)
	}
}

// duration is how long the fault lasts.
func (s *strike) duration() time.Duration {
	ttls := s.arena.ttls()
	return time.Duration(s.length) * min(ttls[s.victim.slot%len(ttls)], 2*time.Second) / 6
}

// strike makes the fault and writes down when it was at work.
func (s *strike) strike(ctx context.Context) {
	s.window = window{what: s.fault.name, from: time.Now().UnixNano(), process: s.victim.ID()}
	err := guarded(func() error { return s.do(s, ctx) })
	s.window.to = time.Now().UnixNano()
	if s.window.lost == 0 {
		s.window.lost = s.window.to
	}
	if errors.Is(err, errNothing) {
		return
	}
	s.mu.Lock()
	s.windows = append(s.windows, s.window)
	s.counts[s.fault.name]++
	if s.window.process < 0 {
		s.servers++
	}
	s.mu.Unlock()
	if err != nil {
		s.failed(fmt.Errorf("%s: %w", s.fault.name, err))
	}
	s.tell()
}

// tell prints what was done.
func (s *strike) tell() {
	if s.log == nil {
		return
	}
	at := ""
	if s.window.process >= 0 {
		at = fmt.Sprintf(" process %d", s.window.process)
	}
	if s.name != "" {
		at += fmt.Sprintf(" (holds %s)", s.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.log, "  %7.3fs %-16s%s for %v\n", time.Unix(0, s.window.from).Sub(s.begin).Seconds(), s.fault.name, at,
		time.Duration(s.window.to-s.window.from).Round(time.Millisecond))
}

func (n *nemesis) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trouble = append(n.trouble, err)
}

// take returns what happened since the last time.
func (n *nemesis) take() (windows []window, trouble []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	windows, trouble = n.windows, n.trouble
	n.windows, n.trouble = nil, nil
	return windows, trouble
}
