// Package conformance runs the checks of conformance suites for stores.
package conformance

import (
	"testing"
	"testing/synctest"
)

// Reporter has the methods of a testing.T that a check needs. Tests of the checks use a
// Recorder instead.
type Reporter interface {
	// Helper is like that of a testing.T.
	Helper()
	// Errorf is like that of a testing.T.
	Errorf(format string, args ...any)
	// Fatalf is like that of a testing.T: it ends the goroutine.
	Fatalf(format string, args ...any)
}

// Run runs a check as a parallel subtest of t, in a bubble if bubble is set. run returns
// what the store lacks for the check, or "".
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
		if missing != "" { // outside of the bubble, in which a skip would be shown as a pass
			t.Skipf("the store has no %s", missing)
		}
	})
}
