//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/guard"
)

// A guard needs a few packages of the standard library. To initialise the others, clients
// of stores among them, would take most of the time between the lock and its command.
func TestGuardStartsWithoutTheRest(t *testing.T) {
	cmd := exec.Command(os.Args[0], guard.Arg) // without a group of its own it refuses, and ends
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != output.ExitUsage || !strings.Contains(string(trace), "init os ") {
		t.Fatalf("got status %d, want %d:\n%s", got, output.ExitUsage, trace)
	}
	if n := strings.Count(string(trace), "init "); n > 60 || strings.Contains(string(trace), "init net/http ") {
		t.Errorf("a guard initialised %d packages before it began:\n%s", n, trace)
	}
}
