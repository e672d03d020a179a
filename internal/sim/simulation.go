package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// Store is a simulated store of locks, which all processes share.
type Store interface {
	Client(*Link) driver.Backend // the store as one process uses it
	Forget(which func() bool)    // loses each lock for which the parameter is true
	Remember() (forget func())   // forget undoes later writes; nil if no failover can
	Force(name string) bool      // ends a hold as operators do; false without one
	Left() []string              // describes the locks that the store still has

	// Holders returns how many holders a name has, or one if the store keeps the name for
	// AtLeast. The result `all` is false if holders are missing, because the store cannot tell
	// holders from waiters.
	Holders(name string) (n int, all bool)
}

// Singly is an optional interface of a Store that renews each lock with a call of its own. Where the
// simulation measures what many locks cost, such a call costs a share of what it costs to renew all
// locks of a process at once.
type Singly interface {
	Singly() // is not called
}

// Optimistic is an optional interface of a Store whose calls read and then write, and begin anew if
// another process has written meanwhile. Without a fault they need up to as many messages as two
// such attempts.
type Optimistic interface {
	Optimistic() // is not called
}

// attempts returns how many calls of the store one call of a process may need, without a fault.
func (s *simulation) attempts() int {
	if _, ok := s.store.(Optimistic); ok {
		return 2
	}
	return 1
}

// Force implements Store.Force for a store whose engine is an admin.Source.
func Force(engine admin.Source, name string) bool {
	ctx := context.Background()
	records, err := engine.Get(ctx, name)
	return err == nil && len(records) > 0 && len(records[0].Holds) > 0 &&
		engine.ForceUnlock(ctx, name, records[0].Holds[0].Holder, "by hand") == nil
}

// Left implements Store.Left for a store whose engine is an admin.Source.
func Left(engine admin.Source) (left []string) {
	for r, err := range engine.List(context.Background(), admin.Filter{}) {
		if err != nil || r.Holders > 0 || r.Waiting > 0 {
			left = append(left, fmt.Sprintf("%s: holders %v, waiters %v, %v", r.Name, r.Holds, r.Waiters, err))
		}
	}
	return left
}

// target is a name, the kind of lock that it is used for, and the data that the checks compare.
// The mutex of the simulation guards the fields that change.
type target struct {
	name    string
	kind    kind
	permits int

	holds          []*hold
	ended          *hold     // the hold that ended last
	writer, reader uint64    // the largest token of a writer, and of a reader
	granted        time.Time // when the name was last granted
	keptUntil      time.Time // the name must stay taken until then: AtLeast

	waiting      []*request // calls that wait for the name
	droppedUntil time.Time  // the store may keep a dropped hold until then
	several      int        // how many calls for several names may have got this one
	unreleased   time.Time  // when a hold last ended, or will end, without a release: the store notifies nobody of that

	freeSince time.Time // when the name became free; zero if it is taken, or if nobody waits for it

	// takenAway is when the store last forgot the name, or an operator forced it. Holders are
	// notified of that later: see "forced unlock" and "data loss" in docs/guarantees.md.
	takenAway time.Time
}

type kind int

const (
	mutex kind = iota
	fair
	readWrite
	semaphore
)

// targets returns some names, of the kinds that a store has.
func targets(r *rand.Rand, caps driver.Caps) []*target {
	all := []*target{{name: "m1"}, {name: "m2"}}
	if caps.Fair {
		all = append(all, &target{name: "f1", kind: fair})
	}
	if caps.Shared {
		all = append(all, &target{name: "r1", kind: readWrite})
	}
	if caps.Permits {
		all = append(all, &target{name: "s2", kind: semaphore, permits: 2}, &target{name: "s1", kind: semaphore, permits: 1})
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+r.IntN(len(all))]
}

// simulation is one run.
type simulation struct {
	plan
	store      Store
	info       driver.Info
	names      []*target
	began      time.Time
	workIsOver chan struct{}

	workersEnded chan struct{}

	random   *rand.Rand
	inFlight atomic.Int64 // calls that have a message under way

	processes []*process // only faults change them

	mu           sync.Mutex
	cost         time.Duration  // how long the store works for one call
	busyUntil    time.Time      // when the store has executed all calls so far
	stopped      chan struct{}  // the store stands still until it is closed; nil if it runs
	troubleUntil time.Time      // when the last fault ends
	disturbed    time.Time      // when a message was lost last
	overdue      time.Time      // when a message arrives that is slow enough for its call to end first
	counts       map[string]int // how many events of each kind happened
	simulated    time.Duration
	drops        map[any]func() // what collects a *holdfast.Lock: see Collected

	notes     sync.Mutex // guards the fields below
	history   []string
	violation string // the first violation, with the history before it
	broken    string // the format of the first violation, which identifies the promise
}

// run simulates a plan. The caller is in a bubble of testing/synctest.
func run(p plan, open func(ttl time.Duration) Store) *simulation {
	s := &simulation{
		plan: p, began: time.Now(), workIsOver: make(chan struct{}), workersEnded: make(chan struct{}), store: open(p.ttl),
		random: rand.New(&source{Source: rand.NewPCG(p.seed, 's')}), counts: map[string]int{}, drops: map[any]func(){}, //nolint:gosec // repeatable
	}
	s.info = s.store.Client(&Link{process: &process{s: s}}).Info()
	s.names = targets(s.random, s.info.Caps)
	if p.onlyPlain {
		s.names = []*target{{name: "m1"}, {name: "m2"}}
	}
	s.names = s.names[:min(len(s.names), p.mostNames)]
	for i := range p.processes {
		s.processes = append(s.processes, s.newProcess(i+1))
	}
	var faults sync.WaitGroup
	faults.Go(s.makeFaults)
	faults.Go(s.giveUps)
	go s.checkLiveness()
	time.Sleep(p.length)
	close(s.workIsOver)
	faults.Wait()
	s.note("all faults have ended")
	s.finish()
	s.simulated = time.Since(s.began)
	if c, ok := s.store.(interface{ Close() }); ok {
		c.Close()
	}
	return s
}

// finish checks that all workers and background work end, and that nothing is left in the store.
func (s *simulation) finish() {
	limit := 3*s.ttl + s.longest() + 10*time.Second
	if s.info.Caps.AtLeast { // each waiter may keep the name for that long
		limit += time.Duration(s.plan.processes*s.workers) * longestAtLeast(s.ttl)
	}
	tooLate := time.AfterFunc(limit, func() {
		s.violate("somebody waits still, %v after the last fault", limit)
		for _, p := range s.processes {
			p.kill()
		}
	})
	for _, p := range s.processes {
		p.work.Wait()
	}
	tooLate.Stop()
	close(s.workersEnded)
	for _, p := range s.processes {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		if err := p.locker.Drain(ctx); err != nil {
			s.violate("process %d: Drain: %v", p.id, err)
		}
		cancel()
	}
	for s.inFlight.Load() > 0 {
		time.Sleep(s.ttl / 10)
	}
	time.Sleep(s.ttl + s.longest() + longestAtLeast(s.ttl))
	if left := s.store.Left(); len(left) > 0 {
		s.violate("left one TTL after all have ended: %v", left)
	}
	time.Sleep(3*s.ttl + 10*time.Second) // goroutines of processes that crashed end in that time
}

// longest returns how much longer than a TTL a store may keep data that nobody renews.
func (s *simulation) longest() time.Duration { return max(s.info.PlaceTTL, s.info.SessionTTL) }

// inTurn returns how long the store takes to execute a call: the time for the calls before it,
// and cost for the call itself.
func (s *simulation) inTurn() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busyUntil = s.busyUntil.Add(max(0, time.Since(s.busyUntil))).Add(s.cost)
	return time.Until(s.busyUntil)
}

// pass waits until a gate is open: see standStill. It returns false if ctx ends before that.
func (s *simulation) pass(ctx context.Context, gate *chan struct{}) bool {
	for {
		s.mu.Lock()
		closed := *gate
		s.mu.Unlock()
		if closed == nil {
			return true
		}
		select {
		case <-closed:
		case <-ctx.Done():
			return false
		}
	}
}

// source is a source of random numbers for all goroutines.
type source struct {
	mu sync.Mutex
	rand.Source
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Source.Uint64()
}

// below returns a random duration that is shorter than d.
func (s *simulation) below(d time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(max(d, 1))))
}

// onGrid returns d, rounded if plan.grid is set, so that several events happen at the same
// instant.
func (s *simulation) onGrid(d time.Duration) time.Duration {
	if !s.grid {
		return d
	}
	return d.Round(max(s.latency, time.Millisecond))
}

// calmAfter is the time after a fault, in addition to a TTL, after which the fault has no
// effects any more. A call whose message was lost ends after 4 s, and until then other calls
// may have to wait for it.
const calmAfter = 5 * time.Second

// calm reports whether the network and the store work, and no earlier fault has effects any
// more.
func (s *simulation) calm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calmSince(time.Now(), s.troubleUntil)
}

// calmSince reports whether the network and the store work, and trouble that ended at the time
// `trouble` had no effects any more at the time t. The mutex is held.
func (s *simulation) calmSince(t, trouble time.Time) bool {
	return s.loss == 0 && t.Sub(trouble) > s.ttl+calmAfter && s.stopped == nil
}

// overdueAfter reports whether a message arrived after the time t that was slow enough for its
// call to end first. Other calls may have waited for that call.
func (s *simulation) overdueAfter(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overdue.After(t)
}

// quick reports whether the network and the store are fast enough for the TTL, and for leases of a
// quarter of it. A call of an optimistic store has several attempts of two calls each.
func (s *simulation) quick() bool {
	share := 200 * s.attempts() * s.attempts()
	return s.latency < s.ttl/time.Duration(share) && s.many == 0
}

// note adds a line to the history.
func (s *simulation) note(format string, args ...any) {
	s.notes.Lock()
	defer s.notes.Unlock()
	line := fmt.Sprintf("%11.6f ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	s.history = append(s.history, line)
}

// violate records that a promise was broken. It keeps the first violation of a simulation,
// because later ones may be consequences of it.
func (s *simulation) violate(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.note("VIOLATION: %s", line)
	s.notes.Lock()
	defer s.notes.Unlock()
	if s.broken == "" {
		const shown = 60 // lines
		before := s.history[max(0, len(s.history)-shown):]
		s.broken, s.violation = format, line+"\n\t"+strings.Join(before, "\n\t")
	}
}
