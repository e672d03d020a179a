package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Seeds simulates some seeds over a store: HOLDFAST_SIM_SEEDS of them, from
// HOLDFAST_SIM_FROM on, or each HOLDFAST_SIM_STEP-th of those. open returns an empty store
// for clients with that TTL.
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
	runtime.GC() // there is none in an exact run
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

// shortest returns a run that breaks the same promise in less time, with less of what a
// plan has.
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

// number is the value of a variable of the environment.
func number(t *testing.T, variable, otherwise string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(variable), otherwise), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
