package cli

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/console"
	"github.com/holdfast-go/holdfast/internal/await"
)

// onConsole starts the program in the foreground of a terminal of its own, which
// is so many columns wide, as under a login shell.
func (s *site) onConsole(columns uint16, args ...string) *console.Console {
	s.t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `trap "" INT; (trap - INT; exec "$0" "$@"); echo "status $?"; read line`, os.Args[0]}, args...)...)
	cmd.Env = append(append(os.Environ(), s.environ...), "HOLDFAST_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0", "TERM=xterm")
	return console.Start(s.t, columns, cmd)
}

func TestConsoleProgress(t *testing.T) {
	s := newSite(t)
	lock := s.take(func() (*holdfast.Lock, error) {
		return s.locker("ci-runner-7@build:4121").TryLock(t.Context(), "deploy/prod")
	})
	c := s.onConsole(200, "run", "deploy/prod", "--", "echo", "mine")
	c.Await(output.EraseLine + `waiting for lock "deploy/prod": held, lease `)
	c.Await("; by ")
	c.Await("ci-runner-7@build:4121")
	c.Await(`s for lock "deploy/prod": held `)
	c.Await("s+, lease ends in ") // since when, as seen from here
	c.Resize(30)
	c.Await(output.EraseLine)
	line := c.Await(output.EraseLine)
	line = strings.TrimSuffix(line, output.EraseLine)
	if n := len([]rune(line)); n > 29 {
		c.Await(output.EraseLine) // it was being drawn when the window shrank
		line = strings.TrimSuffix(c.Await(output.EraseLine), output.EraseLine)
		if n = len([]rune(line)); n > 29 {
			t.Errorf("%d characters on a line of 30: %q", n, line)
		}
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	shown := c.Await("mine\r\n")
	if !strings.HasSuffix(shown, output.EraseLine+"mine\r\n") {
		t.Errorf("got %q, want the line erased before the command writes", shown)
	}
	c.Await("status 0")
}

func TestConsoleProgressInTheQueue(t *testing.T) {
	s := newSite(t)
	first := s.locker("first")
	s.take(func() (*holdfast.Lock, error) { return first.FairMutex("job").TryLock(t.Context()) })
	queued := s.start(nil, "run", "--fair", "job", "--", "true")
	defer queued.status()
	await.Until(t, 20*time.Second, "the first one is in the queue", func() bool { return len(queuedIn(t, s, "job")) != 0 })
	c := s.onConsole(200, "hold", "--fair", "job")
	c.Await("1 ahead; by ")
	queued.signal(syscall.SIGTERM)
	c.Await("you are next")
	c.Press("\x03")
	c.Await("status 130")
}

func queuedIn(t *testing.T, s *site, name string) []any {
	return objects(t, s.run("inspect", "--json", name))[0]["waiters"].([]any)
}

func TestConsoleInterruptErasesTheLine(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	before := s.server.Dump()
	c := s.onConsole(200, "run", "job", "--", "echo", "ran")
	c.Await("; by ")
	c.Press("\x03")
	if shown := c.Await("status 130"); !strings.HasSuffix(shown, output.EraseLine+"status 130") {
		t.Errorf("got %q, want the line erased at the end", shown)
	}
	if after := s.server.Dump(); lockOf(after) != lockOf(before) {
		t.Errorf("got %s, want only the holder's lock: %s", after, before)
	}
}

func TestConsoleHold(t *testing.T) {
	s := newSite(t)
	c := s.onConsole(80, "hold", "job")
	c.Await("; Ctrl-C releases it")
	c.Press("\x03")
	c.Await(`released "job": interrupted`)
	c.Await("status 0")
	s.mustBeFree("job")
}

// A command in the background that wants to read the terminal is stopped. People see that,
// and it goes on when they bring it to the foreground.
func TestConsoleCommandStoppedInTheBackground(t *testing.T) {
	s := newSite(t)
	cmd := exec.Command("sh", "-c", `set -m; "$0" run job -- sh -c 'read line; echo "read <$line>"; exit 3' & read line; fg; echo "status $?"`, os.Args[0])
	cmd.Env = append(append(os.Environ(), s.environ...), "HOLDFAST_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0", "TERM=xterm")
	c := console.Start(t, 200, cmd)
	c.Await("the command has stopped while the lock is held: it needs the terminal")
	c.Press("on\n")
	c.Await("run job") // so says fg
	c.Press("hello\n")
	c.Await("read <hello>")
	if shown := c.Await("status 3"); strings.Contains(shown, "holdfast:") {
		t.Errorf("got %q, want no further message", shown)
	}
}

func TestConsoleForceUnlock(t *testing.T) {
	s := newSite(t)
	s.hold("deploy/prod")
	for _, test := range []struct {
		answer, want string
		free         bool
	}{
		{"no\n", "status 1", false},
		{"\n", "status 1", false},
		{"\x04", "status 1", false},
		{"\x03", "status 130", false},
		{"deploy/prod\n", "status 0", true},
	} {
		c := s.onConsole(100, "force-unlock", "deploy/prod", "--reason", "INC-1")
		shown := c.Await("Type the name of the lock to end this hold: ")
		for _, want := range []string{"ci-runner-7@build:4121", "owner", "This does not stop the holder"} {
			if !strings.Contains(shown, want) {
				t.Errorf("got %q, want it to contain %q", shown, want)
			}
		}
		c.Press(test.answer)
		c.Await(test.want)
		if free := !s.server.Exists("deploy/prod"); free != test.free {
			t.Errorf("%q: the lock is free: %v, want %v", test.answer, free, test.free)
		}
	}
}

// What was shown is what is ended: a hold that came since is left alone.
func TestConsoleForceUnlockOfWhatHasChanged(t *testing.T) {
	s := newSite(t)
	first := s.take(func() (*holdfast.Lock, error) { return s.locker("first").TryLock(t.Context(), "job") })
	c := s.onConsole(100, "force-unlock", "job", "--reason", "INC-1")
	c.Await("to end this hold: ")
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	second := s.take(func() (*holdfast.Lock, error) { return s.locker("second").TryLock(t.Context(), "job") })
	c.Press("job\n")
	c.Await("nothing was done")
	c.Await("status 1")
	if err := second.Unlock(); err != nil {
		t.Errorf("the second holder got %v", err)
	}
}

// To name the hold is no consent where somebody can be asked; --yes is.
func TestConsoleForceUnlockOfANamedHold(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	owner := objects(t, s.run("inspect", "--json", "job"))[0]["holds"].([]any)[0].(map[string]any)["owner"].(string)
	c := s.onConsole(100, "force-unlock", "job", "--reason", "INC-1", "--holder", owner)
	c.Await("to end this hold: ")
	c.Press("no\n")
	c.Await("status 1")
	c = s.onConsole(100, "force-unlock", "job", "--reason", "INC-1", "--yes", "--holder", owner)
	c.Await("status 0")
	s.mustBeFree("job")
}
