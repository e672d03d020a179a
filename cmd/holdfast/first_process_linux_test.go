package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/internal/must"
)

// As the first process of a container, run and elect reap the orphans of their command, and end
// with the status of the command.
func TestFirstProcessReaps(t *testing.T) {
	first := []string{"unshare", "--fork", "--pid", "--mount-proc"}
	if os.Getuid() != 0 {
		first = append(first, "--user", "--map-root-user")
	}
	if out, err := exec.Command(first[0], slices.Concat(first[1:], []string{"true"})...).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no namespace of processes can be made: %v: %s", err, out)
		}
		t.Skipf("no namespace of processes can be made: %v: %s", err, out)
	}
	script := filepath.Join(t.TempDir(), "script")
	const command = `for i in 1 2 3 4 5; do (sleep 0.1 & exec true); done
sleep 1
grep -l "^State:.Z" /proc/[0-9]*/status
exit 7`
	if err := os.WriteFile(script, []byte(command), 0o700); err != nil {
		t.Fatal(err)
	}
	program := must.Build(t)
	for _, verb := range [][]string{{"run"}, {"elect", "--once"}} {
		t.Run(verb[0], func(t *testing.T) {
			args := slices.Concat(first[1:], []string{program}, verb)
			cmd := exec.Command(first[0], append(args, "-u", "redis://"+miniredis.RunT(t).Addr(), "job", "--", "sh", script)...)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 7 || strings.Contains(string(out), "/proc/") {
				t.Errorf("got status %d (%v), want 7 and no dead process: %s", cmd.ProcessState.ExitCode(), err, out)
			}
		})
	}
}
