//go:build simexact

package sim

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	_ "unsafe" // for go:linkname
)

// simSeed is a function that internal/e2e/simoverlay adds to the runtime.
//
//go:linkname simSeed runtime.simSeed
func simSeed(state uint64)

// exact makes the seed decide everything that is random in the bubble of t, also in the runtime.
func exact(t *testing.T, seed uint64) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	cryptotest.SetGlobalRandom(t, seed)
	simSeed(seed + 1)
	t.Cleanup(func() { simSeed(0) })
}
