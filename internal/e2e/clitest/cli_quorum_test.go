//go:build unix

package clitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// TestCLIOnSeveralServers locks with the tool on three servers, of which one at a
// time may be down.
func TestCLIOnSeveralServers(t *testing.T) {
	t.Parallel()
	binary := must.Build(t)
	servers := make([]*redistest.Server, 3)
	var urls []string
	for i := range servers {
		servers[i] = redistest.Start(t, redistest.ShiftableClock())
		servers[i].ShiftClock(2 * time.Minute) // one that was started just now does not vote
		urls = append(urls, "--url", "redis://"+servers[i].Addr())
	}
	call := func(want int, words string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append([]string{args[0]}, append(urls, args[1:]...)...)...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || !strings.Contains(string(out), words) {
			t.Errorf("holdfast %s: got status %d, want %d, and %q in\n%s", strings.Join(args, " "), got, want, words, out)
		}
	}
	held := func() (n int) {
		for _, s := range servers {
			n += int(s.Int("EXISTS", "job"))
		}
		return n
	}

	call(0, "at work on quorum", "run", "job", "--", "sh", "-c", "echo at work on $HOLDFAST_BACKEND")
	if n := held(); n != 0 {
		t.Errorf("%d servers keep the lock after its end", n)
	}
	again := fmt.Sprintf("%s run -n %s job -- true; test $? = 75", binary, strings.Join(urls, " "))
	call(0, "", "run", "job", "--", "sh", "-c", again)

	list := filepath.Join(t.TempDir(), "holdfast.yaml")
	lines := "redlock:\n"
	for _, s := range servers {
		lines += "- redis://" + s.Addr() + "\n"
	}
	if err := os.WriteFile(list, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	listed := exec.CommandContext(t.Context(), binary, "run", "--config", list, "job", "--", "sh", "-c", again)
	if out, err := listed.CombinedOutput(); err != nil {
		t.Errorf("with the servers in a file: %v\n%s", err, out)
	}

	servers[2].Pause() // silent, and then gone
	call(0, "is unreachable, so a majority must come from the other servers", "run", "-w", "10s", "job", "--", "true")
	servers[2].Resume()
	servers[2].Kill()
	call(0, urls[5]+" is unreachable, so a majority must come from the other servers", "run", "-w", "10s", "job", "--", "true")
	// The command says that it runs: a key of an earlier try would be set again.
	runs, deleted := filepath.Join(t.TempDir(), "runs"), make(chan bool)
	go func() {
		defer close(deleted)
		await.Eventually(20*time.Second, func() bool { _, err := os.Stat(runs); return err == nil })
		servers[0].Do("DEL", "job")
	}()
	call(79, "lost", "run", "-t", "2s", "job", "--", "sh", "-c", "touch "+runs+"; exec sleep 20")
	<-deleted

	servers[1].Kill()
	call(69, "connection refused", "run", "-w", "1s", "job", "--", "true")
}
