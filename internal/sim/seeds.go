package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// plan is what a seed decides before a simulation begins.
type plan struct {
	seed, try          uint64 // each try of a seed has other random numbers of the runtime
	processes, workers int    // workers of each process
	mostNames          int
	ttl, margin        time.Duration
	length             time.Duration // for how long workers work and faults happen
	pause              time.Duration // of a worker between two operations, on average
	latency            time.Duration // of a message, on average
	loss               float64       // the share of messages that are lost, without a fault
	spike              time.Duration // how much longer a few messages need, at most
	grid               bool          // messages and work happen at common instants
	drift              float64       // share by which clocks of processes may differ from the store's
	faultEvery         time.Duration // on average; 0 for none
	handoff            holdfast.Handoff

	many int // how many more locks a process holds all the time

	onlyForces bool // all faults are forced unlocks
	onlyPlain  bool // all names are of the kind mutex

	lively      bool          // only what a calm network does: see makeLively
	hold        time.Duration // the longest hold of a lively plan
	giveUpEvery time.Duration // on average; 0 if callers do not give up together

	forgets, forces, crashes, leaves, stops bool // which of these kinds of fault may happen
}

func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 'p')) //nolint:gosec // repeatable
	oneOf := func(ds ...time.Duration) time.Duration { return ds[r.IntN(len(ds))] }
	p := plan{seed: seed, processes: 1 + r.IntN(4), workers: 1 + r.IntN(4), mostNames: 6, grid: r.IntN(2) == 0}
	p.ttl = oneOf(600*time.Millisecond, 2*time.Second, 5*time.Second, 30*time.Second)
	p.length = min(p.ttl*time.Duration(8+r.IntN(16)), 100*time.Second)
	p.pause = max(oneOf(time.Millisecond, 20*time.Millisecond, p.ttl/20, p.ttl/4), p.length*time.Duration(p.processes*p.workers)/1500) // bounds what a seed costs
	p.latency = oneOf(50*time.Microsecond, 500*time.Microsecond, 3*time.Millisecond, p.ttl/100)
	p.spike = p.ttl / 50
	if r.IntN(3) == 0 {
		p.loss = r.Float64() / 10
	}
	if r.IntN(8) > 0 {
		p.faultEvery = p.ttl * time.Duration(1+r.IntN(6)) / 2
	}
	p.forgets, p.forces, p.crashes, p.leaves, p.stops = r.IntN(5) == 0, r.IntN(4) == 0, r.IntN(3) == 0, r.IntN(4) == 0, r.IntN(2) == 0
	if r.IntN(40) == 0 {
		p = plan{seed: seed, processes: 1, workers: 2, ttl: 9 * time.Second, length: time.Minute, pause: time.Second, latency: min(p.latency, 3*time.Millisecond), grid: p.grid, mostNames: p.mostNames, spike: 9 * time.Second / 50}
		p.many, p.faultEvery = 100+r.IntN(200), 5*time.Second
	}
	if p.onlyForces = p.forces && r.IntN(3) == 0; p.onlyForces {
		p.loss = 0 // else nothing is ever calm
	}
	if r.IntN(2) == 0 {
		p.drift = 0.0099 // docs/guarantees.md: up to one per cent
	}
	switch r.IntN(4) {
	case 0:
		p.handoff.Max = -1
	case 1:
		p.handoff = holdfast.Handoff{Max: 1 + r.IntN(6), For: oneOf(time.Millisecond, 50*time.Millisecond, p.ttl, 4*p.ttl)}
	}
	if r.IntN(4) == 0 && p.many == 0 { // many leases at once need their time
		p.margin = p.ttl / time.Duration(3+r.IntN(30))
	}
	if r.IntN(3) == 0 && p.many == 0 {
		p.makeLively(r)
	}
	return p
}

// makeLively makes a plan without faults, in which several processes want a few names nearly all
// the time: a name that is free must not wait for the second at which waiters ask again.
func (p *plan) makeLively(r *rand.Rand) {
	oneOf := func(ds ...time.Duration) time.Duration { return ds[r.IntN(len(ds))] }
	p.lively, p.loss, p.faultEvery, p.forces, p.onlyForces = true, 0, 0, false, false
	p.processes, p.workers, p.mostNames = 2+r.IntN(3), 1+r.IntN(4), 1+r.IntN(2)
	p.ttl = max(p.ttl, 2*time.Second)
	p.latency = oneOf(50*time.Microsecond, 500*time.Microsecond, 3*time.Millisecond)
	p.spike = oneOf(p.latency, 10*time.Millisecond)
	p.pause = oneOf(50*time.Microsecond, time.Millisecond, 6*time.Millisecond, 60*time.Millisecond)
	if p.grid { // otherwise workers could go on at one instant without an end
		p.pause = max(p.pause, time.Millisecond)
	}
	p.hold = oneOf(0, time.Millisecond, 10*time.Millisecond, 60*time.Millisecond)
	if r.IntN(2) == 0 {
		p.giveUpEvery = oneOf(50*time.Millisecond, 500*time.Millisecond)
	}
	if r.IntN(2) == 0 {
		p.handoff = holdfast.Handoff{Max: -1}
	}
	if r.IntN(2) == 0 {
		p.makeBursts(r)
	}
	each := p.pause + p.hold/2 + 4*p.latency
	p.length = min(max(1500*each/time.Duration(p.processes*p.workers), 2*time.Second), 10*time.Second)
}

// makeBursts makes a plan in which processes release mostly quietly: see docs/internals.md.
func (p *plan) makeBursts(r *rand.Rand) {
	p.onlyPlain, p.handoff, p.grid = true, holdfast.Handoff{Max: -1}, false
	p.workers, p.mostNames = 3+r.IntN(2), 1
	p.latency = 100 * time.Microsecond
	p.pause = time.Millisecond
	p.hold = 100 * time.Microsecond * time.Duration(r.IntN(2))
	p.giveUpEvery = 50 * time.Millisecond
}

// Seeds simulates seeds over a store. There are HOLDFAST_SIM_SEEDS of them, beginning with
// HOLDFAST_SIM_FROM. If HOLDFAST_SIM_STEP is n, Seeds simulates only each n-th of them. open
// returns an empty store for clients with the TTL ttl.
func Seeds(t *testing.T, open func(ttl time.Duration) Store) {
	t.Helper()
	otherwise := "30"
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		otherwise = "3" // they take ten times as long
	}
	from, seeds, step := number(t, "HOLDFAST_SIM_FROM", "1"), number(t, "HOLDFAST_SIM_SEEDS", otherwise), number(t, "HOLDFAST_SIM_STEP", "1")
	sum, simulated, hash := map[string]int{}, time.Duration(0), fnv.New64a()
	for seed := from; seed < from+seeds; seed += step {
		s := inBubble(t, newPlan(seed), open)
		for what, n := range s.counts {
			sum[what] += n
		}
		simulated += s.simulated
		fmt.Fprint(hash, s.history)
		if s.violation != "" {
			t.Errorf("seed %d, again by: make sim STORE=%s FROM=%d SEEDS=1", seed, path.Base(t.Name()), seed)
			s = shortest(t, s, open)
			t.Fatalf("%+v\n%s", s.plan, s.violation)
		}
	}
	t.Logf("%.1f hours: %v; hash %x", simulated.Hours(), sum, hash.Sum64())
}

// inBubble simulates a plan.
func inBubble(t *testing.T, p plan, open func(ttl time.Duration) Store) (s *simulation) {
	runtime.GC() // an exact run has no garbage collection
	defer func() {
		if s == nil {
			t.Errorf("seed %d did not end", p.seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		exact(t, p.seed+p.try<<32)
		s = run(p, open)
	})
	return s
}

// shortest returns a run that breaks the same promise as s, if possible in less time, with fewer
// faults, processes, workers and names. It returns s if it finds no such run.
func shortest(t *testing.T, s *simulation, open func(ttl time.Duration) Store) *simulation {
	smaller := []func(*plan){
		func(p *plan) { p.length = (p.length - p.length/8).Truncate(p.ttl) },
		func(p *plan) { p.faultEvery = 0 },
		func(p *plan) { p.processes = max(p.processes-1, 1) },
		func(p *plan) { p.workers = max(p.workers-1, 1) },
		func(p *plan) { p.mostNames = max(len(s.names)-1, 1) },
		func(p *plan) { p.loss, p.drift = 0, 0 },
		func(p *plan) { p.forgets, p.crashes, p.leaves, p.stops = false, false, false, false },
	}
	for i := 0; i < len(smaller); i++ {
		p := s.plan
		if smaller[i](&p); p == s.plan {
			continue
		}
		for p.try = range uint64(5) {
			if o := inBubble(t, p, open); o.broken == s.broken {
				s, i = o, -1
				break
			}
		}
	}
	return s
}

// number returns the number in an environment variable, or the number in otherwise if the
// variable is not set.
func number(t *testing.T, variable, otherwise string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(variable), otherwise), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
