//go:build unix

package cli

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is the program in a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	pipe   *os.File
	rest   string // what it wrote last, once status has returned
}

// start starts the program; prefix, if any, is a command that executes it. Its
// output is a pipe that every descendant shares.
func (s *site) start(prefix []string, args ...string) *process {
	s.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Close()
	line := append(append(prefix, os.Args[0]), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(append(os.Environ(), s.environ...), "HOLDFAST_TEST_MAIN=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = w, w
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &process{t: s.t, cmd: cmd, stdin: stdin, stdout: bufio.NewReader(r), pipe: r}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.Close()
	})
	_ = r.SetReadDeadline(time.Now().Add(30 * time.Second))
	return p
}

// await reads lines until one contains text, and returns them.
func (p *process) await(text string) string {
	p.t.Helper()
	var all strings.Builder
	for {
		line, err := p.stdout.ReadString('\n')
		all.WriteString(line)
		if strings.Contains(line, text) {
			return all.String()
		}
		if err != nil {
			p.t.Fatalf("waiting for %q: %v in %q", text, err, all.String())
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// status waits for the end of the program and of everything it started.
func (p *process) status() int {
	p.t.Helper()
	rest, err := io.ReadAll(p.stdout)
	if err != nil {
		p.t.Fatalf("something of the program is still alive: %v; it wrote %q", err, rest)
	}
	p.rest = string(rest)
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func TestRunForwardsSignals(t *testing.T) {
	s := newSite(t)
	for name, number := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
		"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} {
		t.Run(name, func(t *testing.T) {
			p := (&site{t: t, server: s.server, environ: s.environ}).start(nil, "run", name, "--", "sh", "-c",
				`trap "echo got `+name+`; exit 5" `+name+`; echo ready; while :; do sleep 0.02; done`)
			p.await("ready")
			p.signal(number)
			p.await("got " + name)
			if got := p.status(); got != 5 {
				t.Errorf("got status %d, want 5", got)
			}
			s.mustBeFree(name)
		})
	}
}

func TestRunSignalEndsTheCommand(t *testing.T) {
	s := newSite(t)
	// With exec: a shell may swallow an interrupt that comes while it forks.
	p := s.start(nil, "run", "job", "--", "sh", "-c", "echo ready; exec sleep 100")
	p.await("ready")
	p.signal(syscall.SIGINT)
	if got := p.status(); got != 128+2 {
		t.Errorf("got status %d, want %d", got, 128+2)
	}
	s.mustBeFree("job")
}

func TestRunSignalWhileWaiting(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	before := s.server.Dump()
	for number, want := range map[syscall.Signal]int{syscall.SIGINT: 128 + 2, syscall.SIGTERM: 128 + 15, syscall.SIGHUP: 128 + 1} {
		p := s.start(nil, "run", "-v", "job", "--", "echo", "ran")
		p.await("asking for lock")
		p.signal(syscall.SIGUSR1) // means nothing yet
		p.signal(number)
		if got := p.status(); got != want {
			t.Errorf("%v: got status %d, want %d", number, got, want)
		}
	}
	if after := s.server.Dump(); lockOf(after) != lockOf(before) {
		t.Errorf("got %s, want only the holder's lock: %s", after, before)
	}
}

// lockOf returns the part of a dump that is about the lock itself.
func lockOf(dump string) string {
	_, lock, _ := strings.Cut(dump, "- job\n")
	return lock
}

func TestRunIgnoresWhatItWasStartedToIgnore(t *testing.T) {
	s := newSite(t)
	p := s.start([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, "run", "job", "--", "sh", "-c", "echo ready; read line; exit 6")
	p.await("ready")
	p.signal(syscall.SIGHUP)
	p.stdin.Close()
	if got := p.status(); got != 6 {
		t.Errorf("got status %d, want 6: a hangup is ignored under nohup", got)
	}
}

func TestRunAtLeastEndsWithASignal(t *testing.T) {
	s := newSite(t)
	p := s.start(nil, "run", "-v", "--fair", "--at-least", "1h", "job", "--", "sh", "-c", "exit 4")
	p.await("the command has ended")
	p.signal(syscall.SIGTERM)
	if got := p.status(); got != 4 {
		t.Errorf("got status %d, want 4", got)
	}
	s.mustBeFree("job")
}

func TestRunKilledLeavesNoCommand(t *testing.T) {
	s := newSite(t)
	p := s.start(nil, "run", "job", "--", "sh", "-c",
		`trap "" TERM HUP INT; sh -c 'sleep 100 & sleep 100 & wait' & echo ready; sleep 100`)
	p.await("ready")
	p.signal(syscall.SIGKILL)
	p.status() // fails if something lives on
	if !s.server.Exists("job") {
		t.Error("the lock is free although its holder could not release it: who did?")
	}
}

func TestRunCannotBeSuspendedWithItsLock(t *testing.T) {
	s := newSite(t)
	p := s.start(nil, "run", "job", "--", "sh", "-c", "echo ready; read line; exit 7")
	p.await("ready")
	p.signal(syscall.SIGTSTP)
	p.await("cannot be suspended")
	p.stdin.Close()
	if got := p.status(); got != 7 {
		t.Errorf("got status %d, want 7", got)
	}
}
