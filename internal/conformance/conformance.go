// Package conformance has the code that the conformance suites for stores share. It runs the
// checks of a suite, and makes claims for these checks.
package conformance

import (
	"testing"
	"testing/synctest"
)

// Run runs a check as a parallel subtest of t. The function `open` returns the store to check.
// If `bubble` is true, the subtest runs in a bubble of testing/synctest. The function `missing`
// returns what the check needs and the store lacks. If the store lacks something, Run skips the
// check, else `missing` returns "".
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
		if lacks != "" { // not inside the bubble, because go test would then show the skip as a pass
			t.Skipf("the store has no %s", lacks)
		}
	})
}
