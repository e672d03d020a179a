//go:build unix

package procgroup

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/guard"
)

// family is a command with a child and a grandchild that would run on.
const family = `sh -c 'sleep 100 & sleep 100 & wait' & sleep 100 & echo ready; wait`

// startProgram starts a program that runs script through this package.
func startProgram(t *testing.T, out *output, script string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "PROCGROUP_TEST_SCRIPT="+script)...)
	cmd.Stdout = out.w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestNothingSurvivesTheProgram(t *testing.T) {
	for name, script := range map[string]string{
		"family":    family,
		"deaf":      `trap "" TERM HUP INT; ` + family,
		"leftovers": `trap "" TERM; (echo ready; sleep 100) & exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			out := newOutput(t)
			cmd := startProgram(t, out, script)
			out.await("ready")
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			out.end(10 * time.Second)
		})
	}
}

func TestNothingOutlivesTheDeadlineOfAStoppedProgram(t *testing.T) {
	out := newOutput(t)
	cmd := startProgram(t, out, `trap "" TERM; `+family, "PROCGROUP_TEST_KILL_BY=3s")
	out.await("ready")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The stopped program holds the output open as well: ask for it to be killed
	// only when the command is gone.
	deadline := time.Now().Add(10 * time.Second)
	for len(descendants(t, cmd.Process.Pid)) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the command is alive long after the deadline")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// descendants returns the process ids in sessions' groups other than the
// program's own whose parent is the program, dead ones not counted.
func descendants(t *testing.T, parent int) []string {
	t.Helper()
	text, err := exec.Command("ps", "-eo", "pid=,ppid=,stat=").Output()
	if err != nil {
		t.Skipf("ps does not work here: %v", err)
	}
	var found []string
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[1]) == strconv.Itoa(parent) && fields[2][0] != 'Z' {
			found = append(found, string(fields[0]))
		}
	}
	return found
}

func TestGuardByHandRefuses(t *testing.T) {
	cmd := exec.Command(os.Args[0], guard.Arg)
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != 64 {
		t.Fatalf("got status %d (%v), want 64", got, err)
	}
}
