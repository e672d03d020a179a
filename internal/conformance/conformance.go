// Package conformance runs the checks by which stores prove themselves.
package conformance

import (
	"testing"
	"testing/synctest"
)

// Reporter is what a check needs of a testing.T. Tests of the checks put a Recorder in
// its place.
type Reporter interface {
	// Helper is that of a testing.T.
	Helper()
	// Errorf is that of a testing.T.
	Errorf(format string, args ...any)
	// Fatalf is that of a testing.T: it ends the goroutine.
	Fatalf(format string, args ...any)
}

// Run runs a check as a parallel subtest of t, in a bubble if so said. run returns what
// the store lacks for it, or "".
func Run(t *testing.T, name string, bubble bool, run func(*testing.T) (missing string)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		var missing string
		if bubble {
			synctest.Test(t, func(t *testing.T) { missing = run(t) })
		} else {
			missing = run(t)
		}
		if missing != "" { // not said in the bubble, where a skip would show as a pass
			t.Skipf("the store has no %s", missing)
		}
	})
}
