//go:build unix

package cli

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/must"
)

// A run costs a few starts of this program, of which its guard is a small one, and two
// round trips. The quickest of several is compared with the quickest start, measured in turn:
// a busy machine only adds to each, and to both. One that is too busy gets more rounds.
func TestRunOverhead(t *testing.T) {
	const rounds, most, starts, trips = 40, 200, 3, 12 * time.Millisecond
	binary := must.Build(t)
	s := startServer(t)
	measure := func(least time.Duration, args ...string) time.Duration {
		return min(least, s.timed(t, binary, args...))
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

// On a quiet machine run adds 20 ms to its command. HOLDFAST_QUIET=1 says that this is one,
// and HOLDFAST_BINARY is to be the program of a release.
func TestRunOverheadOnAQuietMachine(t *testing.T) {
	if os.Getenv("HOLDFAST_QUIET") == "" {
		t.Skip("HOLDFAST_QUIET is not set")
	}
	const rounds, limit = 30, 20 * time.Millisecond
	binary := must.Build(t)
	s := startServer(t)
	var bare, locked []time.Duration
	for range rounds {
		bare = append(bare, s.timed(t, "true"))
		locked = append(locked, s.timed(t, binary, "run", "job", "true"))
	}
	slices.Sort(bare)
	slices.Sort(locked)
	over := locked[rounds/2] - bare[rounds/2]
	t.Logf("medians: true takes %v, under a lock %v more; the quickest %v more", bare[rounds/2], over, locked[0]-bare[0])
	if over > limit {
		t.Errorf("run adds %v to its command, want %v at most", over, limit)
	}
}

// timed runs a program that uses the server, and returns how long it took.
func (s server) timed(t *testing.T, program string, args ...string) time.Duration {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "HOLDFAST_URL="+s.url())
	begun := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return time.Since(begun)
}
