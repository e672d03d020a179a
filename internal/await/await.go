// Package await waits, in tests, for what has no event of its own.
package await

import (
	"context"
	"testing"
	"time"
)

// every is how long a poll rests. It is short beside what tests measure, and long
// beside what a question costs.
const every = 2 * time.Millisecond

// Eventually polls until cond holds or d has passed, and reports whether it holds. The
// last poll begins after d has passed: a pause of the process during an earlier one does
// not hide that cond has come to hold in time.
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

// Never fails the test if cond comes to hold within d. Silence proves little: use it
// after what provokes the change, and together with a proof that it was provoked.
func Never(t testing.TB, d time.Duration, what string, cond func() bool) {
	t.Helper()
	began := time.Now()
	if Eventually(d, cond) {
		t.Fatalf("after %v, which must not be: %s", time.Since(began), what)
	}
}

// Context returns a context that ends after d, or with the test.
func Context(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
