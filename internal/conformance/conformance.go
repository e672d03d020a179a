// Package conformance has what the conformance suites for stores share: it runs their checks,
// and makes claims for them.
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

// Run runs a check of the store that open returns as a parallel subtest of t, in a bubble if
// bubble is set. It skips the check if missing returns what the store lacks for it, and not "".
func Run[S any](t *testing.T, name string, bubble bool, open func(*testing.T) S, missing func(S) string, check func(*testing.T, S)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		var lacks string
		run := func(t *testing.T) {
			store := open(t)
			if lacks = missing(store); lacks == "" {
				check(t, store)
			}
		}
		if bubble {
			synctest.Test(t, run)
		} else {
			run(t)
		}
		if lacks != "" { // outside of the bubble, in which a skip would be shown as a pass
			t.Skipf("the store has no %s", lacks)
		}
	})
}
