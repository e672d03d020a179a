//go:build linux

package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/console"
	"github.com/holdfast-go/holdfast/internal/await"
)

// running is a process as everybody on the machine sees it, and what only its
// owner sees.
type running struct {
	pid, parent   int
	line, environ string
}

// family returns the process pid and everything that descends from it.
func family(t *testing.T, pid int) []running {
	t.Helper()
	var all []running
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		read := func(name string) string {
			text, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), name)) // it may be gone
			return string(text)
		}
		stat := read("stat") // "pid (name) state parent"
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, running{number, parent, strings.ReplaceAll(read("cmdline"), "\x00", " "), read("environ")})
	}
	known := []int{pid}
	for i := 0; i < len(known); i++ {
		for _, p := range all {
			if p.parent == known[i] {
				known = append(known, p.pid)
			}
		}
	}
	return slices.DeleteFunc(all, func(p running) bool { return !slices.Contains(known, p.pid) })
}

// However the password comes, no other process gets it: neither the guard
// nor the command, unless the user put it into the environment that the command
// inherits.
func TestRunKeepsThePasswordToItself(t *testing.T) {
	s := newSite(t)
	s.server.RequireUserAuth("app", "s3cret")
	addr := s.server.Addr()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		environ  []string
		args     []string
		typed    bool // the user put it on the command line of holdfast
		exported bool // the user put it into the environment of holdfast
	}{
		{"file", []string{"HOLDFAST_URL=redis://app@" + addr, "HOLDFAST_PASSWORD_FILE=" + file}, nil, false, false},
		{"file and user", []string{"HOLDFAST_URL=redis://" + addr, "HOLDFAST_PASSWORD_FILE=" + file}, []string{"--user", "app"}, false, false},
		{"url variable", []string{"HOLDFAST_URL=redis://app:s3cret@" + addr}, nil, false, true},
		{"redis-cli's variable", []string{"HOLDFAST_URL=redis://app@" + addr, "REDISCLI_AUTH=s3cret"}, nil, false, true},
		{"url flag", nil, []string{"--url", "redis://app:s3cret@" + addr}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			environ := append([]string{"HOLDFAST_LOG_LEVEL=debug"}, test.environ...)
			site := &site{t: t, server: s.server, environ: environ}
			p := site.start(nil, append(append([]string{"run", "-v"}, test.args...), "job", "--", "sh", "-c", `echo ready; read line; echo over; sleep 0`)...)
			said := p.await("ready")
			seen := family(t, p.cmd.Process.Pid)
			if len(seen) < 3 {
				t.Errorf("found %d processes, want holdfast, its guard and the command: %+v", len(seen), seen)
			}
			for _, r := range seen {
				if strings.Contains(r.line, "s3cret") { // not even where the user typed it: the program has blotted it out
					t.Errorf("the password is on the command line of %q", r.line)
				}
				if strings.Contains(r.environ, "s3cret") && (!test.exported || strings.Contains(r.line, "__guard")) {
					t.Errorf("the password is in the environment of %q", r.line)
				}
			}
			_, _ = fmt.Fprintln(p.stdin)
			said += p.await("released")
			if strings.Contains(said, "s3cret") {
				t.Errorf("the password was printed: %s", said)
			}
			if warned := strings.Contains(said, "can read the password"); warned != test.typed {
				t.Errorf("got a warning: %v, want %v: %s", warned, test.typed, said)
			}
			if got := p.status(); got != 0 {
				t.Errorf("got status %d, want 0: %s", got, said)
			}
		})
	}
}

// However the name of a parameter is written, its password does not stay on the
// command line, and is warned of.
func TestEncodedPasswordIsBlottedOut(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // answers nothing: the program stays while it is looked at
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, name := range []string{"sentinel_password", "sentinel_p%61ssword", "%73entinel%5fpasswor%64"} {
		s := &site{t: t}
		p := s.start(nil, "status", "--url", "redis+sentinel://app:s%33cret@"+silent.Addr().String()+"/m?"+name+"=s3cret&db=1")
		conn, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range family(t, p.cmd.Process.Pid) {
			if strings.Contains(r.line, "s3cret") || strings.Contains(r.line, "s%33cret") {
				t.Errorf("the password is on the command line of %q", r.line)
			}
		}
		p.await("can read the password")
		p.signal(syscall.SIGKILL)
		conn.Close()
		p.status()
	}
}

func TestAskPassword(t *testing.T) {
	s := newSite(t)
	s.server.RequireUserAuth("app", "s3cret")
	for password, code := range map[string]int{"s3cret": 0, "wr0ng": 77, "": 64} {
		side, tty := console.Open(t)
		c := begin(t, t.Context(), tty, s.environ, "run", "-v", "--user", "app", "--askpass", "job", "true")
		if _, err := side.WriteString(password + "\n"); err != nil {
			t.Fatal(err)
		}
		got := c.wait()
		if got.code != code || !strings.Contains(got.stderr, "Password of the store: ") {
			t.Errorf("%q: got status %d, want %d: %s", password, got.code, code, got.stderr)
		}
		if password != "" && strings.Contains(got.stderr+got.stdout, password) {
			t.Errorf("%q was printed: %s", password, got.stderr)
		}
	}
	s.run("run", "--askpass", "job", "true").want(t, 64, "--askpass: standard input is not a terminal")
}

// A password that was typed once is for all servers. The stand-ins do not tell their
// run id, which comes after the password.
func TestAskPasswordOfSeveralServers(t *testing.T) {
	args := []string{"run", "--askpass", "-n"}
	for range 3 {
		s := newSite(t)
		s.server.RequireAuth("s3cret")
		args = append(args, "-u", s.url)
	}
	side, tty := console.Open(t)
	c := begin(t, t.Context(), tty, nil, append(args, "job", "true")...)
	if _, err := side.WriteString("s3cret\n"); err != nil {
		t.Fatal(err)
	}
	got := c.wait()
	if n := strings.Count(got.stderr, "Password of the store: "); n != 1 || !strings.Contains(got.stderr, "run id") {
		t.Errorf("asked %d times, want once, and no trouble but with the run id: %s", n, got.stderr)
	}
	for _, trouble := range []string{"NOAUTH", "unreachable", "s3cret"} {
		if strings.Contains(got.stderr, trouble) {
			t.Errorf("got %q in %s", trouble, got.stderr)
		}
	}
}

// A command that waits for its store asks for the password once, and not at each attempt.
func TestAskPasswordOfAStoreThatIsDown(t *testing.T) {
	side, tty := console.Open(t)
	c := begin(t, t.Context(), tty, nil, "run", "--askpass", "-w", "600ms", "-u", "redis://"+freeAddress(t), "job", "true")
	if _, err := side.WriteString("s3cret\n"); err != nil {
		t.Fatal(err)
	}
	got := c.wait()
	got.want(t, output.ExitUnreachable, "waiting for the store")
	if n := strings.Count(got.stderr, "Password of the store: "); n != 1 {
		t.Errorf("asked %d times, want once: %s", n, got.stderr)
	}
}

// An end of the program must not leave a terminal that hides what is typed.
func TestAskPasswordInterrupted(t *testing.T) {
	s := newSite(t)
	side, tty := console.Open(t)
	shows := func() bool {
		state, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return state.Lflag&unix.ECHO != 0
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := begin(t, ctx, tty, s.environ, "run", "--askpass", "job", "true")
	// A terminal does not tell when it changes.
	await.Until(t, 10*time.Second, "what is typed is hidden", func() bool { return !shows() })
	cancel()
	if got := c.wait(); got.code != 128+int(syscall.SIGTERM) {
		t.Errorf("got status %d: %s", got.code, got.stderr)
	}
	if !shows() {
		t.Error("what is typed stays hidden")
	}
	_, _ = side.WriteString("\n") // ends the read
}
