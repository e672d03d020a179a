//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
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
	s.environ = append(s.environ, ownersVariable+"=somebody:1 else:2")
	s.run("run", "-w", "500ms", "job", "true").want(t, output.ExitBusy, "is held by ")
}

func TestInTheWay(t *testing.T) {
	hold := func(owner string, mode driver.Mode) admin.Hold {
		return admin.Hold{Holder: admin.Holder{Owner: owner}, Mode: mode}
	}
	for name, test := range map[string]struct {
		kind   admin.Kind
		holds  []admin.Hold
		shared bool
		want   bool
	}{
		"ours":                    {admin.KindMutex, []admin.Hold{hold("a", driver.Exclusive)}, false, true},
		"another's":               {admin.KindMutex, []admin.Hold{hold("x", driver.Exclusive)}, false, false},
		"a permit left to others": {admin.KindSemaphore, []admin.Hold{hold("a", driver.Permit), hold("x", driver.Permit)}, false, false},
		"all permits":             {admin.KindSemaphore, []admin.Hold{hold("a", driver.Permit), hold("b", driver.Permit)}, false, true},
		"we and others read":      {admin.KindReadWrite, []admin.Hold{hold("x", driver.Shared), hold("b", driver.Shared)}, false, true},
		"a writer waits":          {admin.KindReadWrite, []admin.Hold{hold("a", driver.Shared)}, true, false},
		"we write":                {admin.KindReadWrite, []admin.Hold{hold("b", driver.Exclusive)}, true, true},
	} {
		r := admin.Record{Name: "job", Kind: test.kind, Holds: test.holds, Holders: len(test.holds)}
		err := inTheWay(r, strings.Fields("a b"), test.shared)
		if (err != nil) != test.want {
			t.Errorf("%s: got %v, want that it waits for itself: %v", name, err, test.want)
		}
	}
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
	if !strings.Contains(runLong, "Processes that CMD leaves behind") {
		t.Error("the help does not say so")
	}
}
