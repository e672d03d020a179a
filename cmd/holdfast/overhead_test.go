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

// The overhead of run is that of the quickest of several: a busy machine only
// adds to it.
func TestRunOverhead(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	s := startServer(t)
	quickest := func(args ...string) time.Duration {
		least := time.Hour
		for range 40 {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "HOLDFAST_URL="+s.url())
			begun := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%q: %v\n%s", args, err, out)
			}
			least = min(least, time.Since(begun))
		}
		return least
	}
	alone, locked := quickest("true"), quickest(binary, "run", "job", "true")
	t.Logf("the command alone %v, under a lock %v", alone, locked)
	if locked-alone > maxOverhead {
		t.Errorf("run costs %v, want less than %v", locked-alone, maxOverhead)
	}
}
