package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
)

// console is a pseudo-terminal with the program in its foreground, and a person
// before it.
type console struct {
	t    *testing.T
	side *os.File // the person's
	cmd  *exec.Cmd
	seen strings.Builder
}

// onConsole starts the program in the foreground of a terminal of its own, which
// is so many columns wide.
func (s *site) onConsole(columns uint16, args ...string) *console {
	s.t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		s.t.Skipf("no pseudo-terminals here: %v", err)
	}
	s.t.Cleanup(func() { side.Close() })
	c := &console{t: s.t, side: side}
	var number int
	c.control(func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		var err error
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	c.resize(columns)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tty.Close()
	// The program shall not be the leader of the session, as it is none under a
	// login shell: the end of a leader hangs up the terminal for everybody.
	c.cmd = exec.Command("sh", append([]string{"-c", `trap "" INT; (trap - INT; exec "$0" "$@"); echo "status $?"; read line`, os.Args[0]}, args...)...)
	c.cmd.Env = append(append(os.Environ(), s.environ...), "HOLDFAST_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0", "TERM=xterm")
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = tty, tty, tty
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

// control does something with the descriptor. Method Fd would take the read
// deadlines away.
func (c *console) control(do func(fd int) error) {
	c.t.Helper()
	raw, err := c.side.SyscallConn()
	if err != nil {
		c.t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil || failed != nil {
		c.t.Fatal(err, failed)
	}
}

func (c *console) resize(columns uint16) {
	c.t.Helper()
	c.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	})
}

// await reads until text was shown, and returns all that was shown until then
// and not returned before.
func (c *console) await(text string) string {
	c.t.Helper()
	_ = c.side.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		all := c.seen.String()
		if at := strings.Index(all, text); at >= 0 {
			end := at + len(text)
			c.seen.Reset()
			c.seen.WriteString(all[end:])
			return all[:end]
		}
		var b [256]byte
		n, err := c.side.Read(b[:])
		c.seen.Write(b[:n])
		if err != nil {
			c.t.Fatalf("waiting for %q: %v; saw %q", text, err, c.seen.String())
		}
	}
}

func (c *console) press(keys string) {
	c.t.Helper()
	if _, err := c.side.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

func TestConsoleProgress(t *testing.T) {
	s := newSite(t)
	lock := s.take(func() (*holdfast.Lock, error) {
		return s.locker("ci-runner-7@build:4121").TryLock(t.Context(), "deploy/prod")
	})
	c := s.onConsole(200, "run", "deploy/prod", "--", "echo", "mine")
	c.await(eraseLine + `waiting for lock "deploy/prod", held, lease `)
	c.await("; by ")
	c.await("ci-runner-7@build:4121")
	c.await(`s for lock "deploy/prod", held `)
	c.await("s+, lease ") // since when, as seen from here
	c.resize(30)
	c.await(eraseLine)
	line := c.await(eraseLine)
	line = strings.TrimSuffix(line, eraseLine)
	if n := len([]rune(line)); n > 29 {
		c.await(eraseLine) // it was being drawn when the window shrank
		line = strings.TrimSuffix(c.await(eraseLine), eraseLine)
		if n = len([]rune(line)); n > 29 {
			t.Errorf("%d characters on a line of 30: %q", n, line)
		}
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	shown := c.await("mine\r\n")
	if !strings.HasSuffix(shown, eraseLine+"mine\r\n") {
		t.Errorf("got %q, want the line erased before the command writes", shown)
	}
	c.await("status 0")
}

func TestConsoleProgressInTheQueue(t *testing.T) {
	s := newSite(t)
	first := s.locker("first")
	s.take(func() (*holdfast.Lock, error) { return first.FairMutex("job").TryLock(t.Context()) })
	queued := s.start(nil, "run", "--fair", "job", "--", "true")
	defer queued.status()
	for len(queuedIn(t, s, "job")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	c := s.onConsole(200, "hold", "--fair", "job")
	c.await("1 ahead; by ")
	queued.signal(syscall.SIGTERM)
	c.await("you are next")
	c.press("\x03")
	c.await("status 130")
}

func queuedIn(t *testing.T, s *site, name string) []any {
	return objects(t, s.run("inspect", "--json", name))[0]["waiters"].([]any)
}

func TestConsoleInterruptErasesTheLine(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	before := s.server.Dump()
	c := s.onConsole(200, "run", "job", "--", "echo", "ran")
	c.await("; by ")
	c.press("\x03")
	if shown := c.await("status 130"); !strings.HasSuffix(shown, eraseLine+"status 130") {
		t.Errorf("got %q, want the line erased at the end", shown)
	}
	if after := s.server.Dump(); lockOf(after) != lockOf(before) {
		t.Errorf("got %s, want only the holder's lock: %s", after, before)
	}
}

func TestConsoleHold(t *testing.T) {
	s := newSite(t)
	c := s.onConsole(80, "hold", "job")
	c.await("; Ctrl-C releases it")
	c.press("\x03")
	c.await(`released "job": interrupted`)
	c.await("status 0")
	s.mustBeFree("job")
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
		shown := c.await("Type the name of the lock to end this hold: ")
		for _, want := range []string{"ci-runner-7@build:4121", "owner", "The holder is not stopped"} {
			if !strings.Contains(shown, want) {
				t.Errorf("got %q, want it to contain %q", shown, want)
			}
		}
		c.press(test.answer)
		c.await(test.want)
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
	c.await("to end this hold: ")
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	second := s.take(func() (*holdfast.Lock, error) { return s.locker("second").TryLock(t.Context(), "job") })
	c.press("job\n")
	c.await("nothing was done")
	c.await("status 1")
	if err := second.Unlock(); err != nil {
		t.Errorf("the second holder got %v", err)
	}
}
