// Package conformance has what the conformance suites for stores share: it runs their checks,
// and makes claims for them.
package conformance

import (
	"testing"
	"testing/synctest"
)

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
