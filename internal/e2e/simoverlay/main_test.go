package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSeedsRunAgain simulates the same seeds in two processes at once, which print a hash
// of what happened.
func TestSeedsRunAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the runtime")
	}
	flags, err := overlay()
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	binary := filepath.Join(t.TempDir(), "rows.test")
	args := append([]string{"test", "-c", "-o", binary}, strings.Fields(flags)...)
	if out, err := exec.CommandContext(ctx, "go", append(args, "github.com/holdfast-go/holdfast/internal/rows")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := [2]chan string{make(chan string, 1), make(chan string, 1)}
	for _, c := range found {
		go func() {
			run := exec.CommandContext(ctx, binary, "-test.v", "-test.run=TestSimulation/^rows$")
			run.Env = append(run.Environ(), "HOLDFAST_SIM_FROM=1", "HOLDFAST_SIM_SEEDS=20", "HOLDFAST_SIM_STEP=1")
			out, _ := run.CombinedOutput()
			_, hash, _ := strings.Cut(string(out), "hours: ")
			hash, _, _ = strings.Cut(hash, "\n")
			c <- hash
		}()
	}
	one, other := <-found[0], <-found[1]
	if !strings.Contains(one, "hash") || one != other {
		t.Fatalf("20 seeds in two processes:\n%s\n%s", one, other)
	}
}

// TestOtherRuntime shows that a runtime without one of the texts is refused.
func TestOtherRuntime(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rand.go"), []byte("func rand()"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := change(dir, []replacement{{"rand.go", "func rand()", ""}, {"rand.go", "cheaprand", ""}})
	if want := `rand.go has "cheaprand" 0 times`; err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestOtherVersion(t *testing.T) {
	for found, want := range map[string]bool{version: true, version + ".8": true, version + "0": false, "go1.25.3": false, "devel": false} {
		if err := known(found); (err == nil) != want {
			t.Errorf("%s: got %v, want it known: %v", found, err, want)
		}
	}
}
