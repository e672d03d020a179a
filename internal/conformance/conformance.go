// Package conformance has what the conformance suites for stores share: it runs their checks,
// and makes claims for them.
package conformance

import (
	"testing"
	"testing/synctest"
)

// Run runs a check as a parallel subtest of t. The function `open` returns the store to check.
// If `bubble` is true, the subtest runs in a bubble of testing/synctest. The function `missing`
// returns what the check needs and the store lacks, or "". If it does not return "", Run skips
// the check.
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
