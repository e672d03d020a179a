package sim

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Seeds simulates some seeds over a store, on all cores: HOLDFAST_SIM_SEEDS of them, from
// HOLDFAST_SIM_FROM on. open returns an empty store for clients with that TTL.
func Seeds(t *testing.T, open func(ttl time.Duration) Store) {
	t.Helper()
	from, seeds := number(t, "HOLDFAST_SIM_FROM", 1), number(t, "HOLDFAST_SIM_SEEDS", 30/slower)
	parts := uint64(runtime.GOMAXPROCS(0))
	sum, simulated := map[string]int{}, time.Duration(0)
	var mu sync.Mutex
	t.Run("", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := from + part; seed < from+seeds && !t.Failed(); seed += parts {
					synctest.Test(t, func(t *testing.T) {
						s := run(newPlan(seed), open)
						s.mu.Lock() // a call may come after the end
						defer s.mu.Unlock()
						mu.Lock()
						for what, n := range s.counts {
							sum[what] += n
						}
						simulated += s.simulated
						mu.Unlock()
						if len(s.violations) > 0 {
							t.Errorf("seed %d: %s\n%+v", seed, s.violations[0], s.plan)
						}
						runtime.KeepAlive(s.locks)
					})
				}
			})
		}
	})
	t.Logf("%.1f hours: %v", simulated.Hours(), sum)
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
