// Package await waits, in tests, for conditions that no event reports.
package await

import (
	"context"
	"testing"
	"time"
)

// The constant `every` is the pause between two polls. It is short compared with the times that
// tests measure, and long compared with the cost of a poll.
const every = 2 * time.Millisecond

// Eventually polls until cond holds or d has passed, and reports whether it holds. The last
// poll begins after d has passed. So if the process pauses during an earlier poll, Eventually
// still finds that cond holds.
func Eventually(d time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(d); ; time.Sleep(every) {
		last := time.Now().After(deadline)
		if cond() {
			return true
		}
		if last {
			return false
		}
	}
}

// Until fails the test at once unless cond comes to hold within d.
func Until(t testing.TB, d time.Duration, what string, cond func() bool) {
	t.Helper()
	if !Eventually(d, cond) {
		t.Fatalf("not within %v: %s", d, what)
	}
}

// Never fails the test if cond comes to hold within d. The success of Never alone proves
// little. So call Never after an action that could make cond hold, and check in another way
// that the action took place.
func Never(t testing.TB, d time.Duration, what string, cond func() bool) {
	t.Helper()
	began := time.Now()
	if Eventually(d, cond) {
		t.Fatalf("after %v, which must not be: %s", time.Since(began), what)
	}
}

// Context returns a context that ends after d, or when the test ends.
func Context(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
