//go:build unix

package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// asCommand is a site whose commands can be this program, as a command of its own run.
func (s *site) asCommand() *site {
	inner := *s
	inner.environ = append([]string{"HOLDFAST_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0"}, s.environ...)
	return &inner
}

// A command that asks for the lock that it runs under would wait for itself: it ends at once,
// also if another run stands between, and with a limit to the wait.
func TestNestedRun(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *site) {
		s = s.asCommand()
		self := os.Args[0]
		for name, test := range map[string][]string{
			"mutex":     {"run", "job", self, "run", "job", "true"},
			"limited":   {"run", "job", self, "run", "-w", "1h", "job", "true"},
			"between":   {"run", "job", self, "run", "other", self, "hold", "job"},
			"quietly":   {"run", "job", self, "run", "--skip-ok", "job", "true"},
			"fair":      {"run", "--fair", "job", self, "run", "--fair", "job", "true"},
			"writes":    {"run", "--shared", "job", self, "run", "--exclusive", "job", "true"},
			"reads":     {"run", "--exclusive", "job", self, "run", "--shared", "job", "true"},
			"semaphore": {"run", "--permits", "1", "sem", self, "run", "--permits", "1", "sem", "true"},
			"election":  {"run", "job", self, "elect", "job", "true"},
		} {
			got := s.run(test...)
			got.want(t, output.ExitOwnFailure, "is held by ", ", which runs this command and waits for its end")
			if t.Failed() {
				t.Fatalf("%s: got %+v", name, got)
			}
		}
		s.run("run", "job", self, "run", "other", "true").want(t, 0)
		s.run("run", "--shared", "rw", self, "run", "--shared", "rw", "true").want(t, 0)
		s.run("run", "--permits", "2", "two", self, "run", "--permits", "2", "two", "true").want(t, 0)
		s.run("run", "job", self, "run", "-n", "job", "true").want(t, output.ExitBusy, "is held by ")
	})
}

// Any other holder of the lock is waited for: the variable alone proves nothing.
func TestNestedRunAsksTheStore(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	s.environ = append(s.environ, "HOLDFAST_OWNERS=somebody:1 else:2")
	s.run("run", "-w", "500ms", "job", "true").want(t, output.ExitBusy, "is held by ")
}

// What a command leaves behind in its group is ended with it, as the help says, and not
// waited for.
func TestRunEndsWhatIsLeftBehind(t *testing.T) {
	s := newSite(t)
	p := s.start(nil, "run", "job", "--", "sh", "-c", `(trap "echo asked; exit" TERM; echo ready; while :; do sleep 0.02; done) & read line`)
	p.await("ready")
	p.stdin.Close()
	if got := p.status(); got != 1 || !strings.Contains(p.rest, "asked") {
		t.Errorf("got status %d, %q, want that of the command, and that the other was asked to end", got, p.rest)
	}
	s.mustBeFree("job")
	if !strings.Contains(helpText(t, "run"), "run stops the processes that CMD leaves behind") {
		t.Error("the help does not say so")
	}
}
