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

// Store is what the processes share.
type Store interface {
	Client(*Link) driver.Backend // of one process
	Forget(which func() bool)    // it loses some locks, which says of each whether it does
	Remember() (forget func())   // a failover may forget what was written in between; nil if the store has none such
	Force(name string) bool      // ends a hold by hand
	Left() []string              // the locks that it still has, for people
}

// Force is that of a Store whose engine people can look into.
func Force(engine admin.Source, name string) bool {
	ctx := context.Background()
	records, err := engine.Get(ctx, name)
	return err == nil && len(records) > 0 && len(records[0].Holds) > 0 &&
		engine.ForceUnlock(ctx, name, records[0].Holds[0].Holder, "by hand") == nil
}

// Left is that of a Store whose engine people can look into.
func Left(engine admin.Source) (left []string) {
	for r, err := range engine.List(context.Background(), admin.Filter{}) {
		if err != nil || r.Holders > 0 || r.Waiting > 0 {
			left = append(left, fmt.Sprintf("%s: holders %v, waiters %v, %v", r.Name, r.Holds, r.Waiters, err))
		}
	}
	return left
}

// target is a name, what it is used as, and what the checks compare. The mutex of the
// simulation guards what changes.
type target struct {
	name    string
	kind    kind
	permits int

	holds          []*hold
	ended          *hold     // the last one
	writer, reader uint64    // the highest token of each
	granted        time.Time // the last time
	keptUntil      time.Time // by AtLeast

	// takenAway is when the store forgot the name, or a person forced it: holders learn of
	// that later, see "forced unlock" and "data loss" in docs/guarantees.md.
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

	random   *rand.Rand
	inFlight atomic.Int64 // calls of which a message is under way

	processes []*process // only faults change them

	mu           sync.Mutex
	cost         time.Duration  // what a call takes of the store's time
	busyUntil    time.Time      // with calls that came before
	stopped      chan struct{}  // the store stands still until it is closed; nil if it runs
	troubleUntil time.Time      // the last fault ends
	counts       map[string]int // of what has happened
	simulated    time.Duration

	notes     sync.Mutex // of what follows
	history   []string
	violation string // the first
	broken    string // its format
}

// run simulates a plan. The caller is in a bubble of testing/synctest.
func run(p plan, open func(ttl time.Duration) Store) *simulation {
	s := &simulation{
		plan: p, began: time.Now(), workIsOver: make(chan struct{}), store: open(p.ttl),
		random: rand.New(&source{Source: rand.NewPCG(p.seed, 's')}), counts: map[string]int{}, //nolint:gosec // repeatable
	}
	s.info = s.store.Client(&Link{process: &process{s: s}}).Info()
	s.names = targets(s.random, s.info.Caps)
	s.names = s.names[:min(len(s.names), p.mostNames)]
	for i := range p.processes {
		s.processes = append(s.processes, s.newProcess(i+1))
	}
	var faults sync.WaitGroup
	faults.Go(s.makeFaults)
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

// finish checks that everybody is served, and that nothing is left.
func (s *simulation) finish() {
	limit := 3*s.ttl + s.longest() + 10*time.Second
	if s.info.Caps.AtLeast { // each of those who wait may keep the name
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
	time.Sleep(3*s.ttl + 10*time.Second) // what a process that crashed does still
}

// longest is how long a store keeps something that nobody renews, beyond a TTL.
func (s *simulation) longest() time.Duration { return max(s.info.PlaceTTL, s.info.SessionTTL) }

// inTurn is how long a call waits for those before it, and for what it takes of the store.
func (s *simulation) inTurn() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busyUntil = s.busyUntil.Add(max(0, time.Since(s.busyUntil))).Add(s.cost)
	return time.Until(s.busyUntil)
}

// pass waits until nothing stands still at a gate: the store, or a process. It returns false
// if ctx ends before.
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

// below is a random duration of less than d.
func (s *simulation) below(d time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(max(d, 1))))
}

// onGrid has half of the simulations act at common instants, so that things happen at once.
func (s *simulation) onGrid(d time.Duration) time.Duration {
	if !s.grid {
		return d
	}
	return d.Round(max(s.latency, time.Millisecond))
}

// calmAfter is how long after a fault, beyond a TTL, nothing of it is felt any more: a call
// whose message was lost ends after 4 s, and until then others may have to wait for it.
const calmAfter = 5 * time.Second

// calm says that nothing is wrong.
func (s *simulation) calm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loss == 0 && time.Since(s.troubleUntil) > s.ttl+calmAfter && s.stopped == nil
}

// quick says that network and store are fast enough for the TTL.
func (s *simulation) quick() bool { return s.latency < s.ttl/200 && s.many == 0 }

// note adds a line to the history.
func (s *simulation) note(format string, args ...any) {
	s.notes.Lock()
	defer s.notes.Unlock()
	line := fmt.Sprintf("%11.6f ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	s.history = append(s.history, line)
}

// violate records a promise that was broken. What follows the first may come of it.
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
