//go:build unix

package main

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/must"
)

// A run costs a few starts of this program, of which its guard is one, and two round
// trips. The quickest of several is compared with the quickest start, measured in turn:
// a busy machine only adds to each, and to both. One that is too busy gets more rounds.
func TestRunOverhead(t *testing.T) {
	const rounds, most, starts, trips = 40, 200, 4, 12 * time.Millisecond
	binary := must.Build(t)
	s := startServer(t)
	measure := func(least time.Duration, args ...string) time.Duration {
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "HOLDFAST_URL="+s.url())
		begun := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return min(least, time.Since(begun))
	}
	bare, locked := time.Hour, time.Hour
	for n := 0; n < rounds || n < most && locked > starts*bare+trips; n++ {
		bare = measure(bare, "version")
		locked = measure(locked, "run", "job", "true")
	}
	t.Logf("a bare start takes %v, true under a lock %v", bare, locked)
	if limit := starts*bare + trips; locked > limit {
		t.Errorf("true under a lock takes %v, want %v at most: %d bare starts of %v, and %v", locked, limit, starts, bare, trips)
	}
}
