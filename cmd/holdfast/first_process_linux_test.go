package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/internal/must"
)

// As the first process of a container, run reaps the orphans of its command, and ends with the
// status of the command.
func TestFirstProcessReaps(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a namespace of processes")
	}
	script := filepath.Join(t.TempDir(), "script")
	const command = `for i in 1 2 3 4 5; do (sleep 0.1 & exec true); done
sleep 1
grep -l "^State:.Z" /proc/[0-9]*/status
exit 7`
	if err := os.WriteFile(script, []byte(command), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--fork", "--pid", "--mount-proc", must.Build(t), "run", "-u", "redis://"+miniredis.RunT(t).Addr(), "job", "--", "sh", script)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 7 || strings.Contains(string(out), "/proc/") {
		t.Errorf("got status %d (%v), want 7 and no dead process: %s", cmd.ProcessState.ExitCode(), err, out)
	}
}
