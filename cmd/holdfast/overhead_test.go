//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// maxOverhead is what run may cost beside the command and two round trips.
const maxOverhead = 30 * time.Millisecond

// enough is how long the overhead is measured at most.
const enough = 30 * time.Second

// The overhead of run is the difference between the quickest of several: a busy
// machine only adds to each. Both are measured in turn, and until it is busy no more.
func TestRunOverhead(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	s := startServer(t)
	measure := func(least time.Duration, args ...string) time.Duration {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "HOLDFAST_URL="+s.url())
		begun := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return min(least, time.Since(begun))
	}
	alone, locked, runs := time.Hour, time.Hour, 0
	for begun := time.Now(); runs < 40 || locked-alone > maxOverhead && time.Since(begun) < enough; runs++ {
		alone = measure(alone, "true")
		locked = measure(locked, binary, "run", "job", "true")
	}
	t.Logf("the command alone %v, under a lock %v, of %d", alone, locked, runs)
	if locked-alone > maxOverhead {
		t.Errorf("run costs %v, want less than %v", locked-alone, maxOverhead)
	}
}
