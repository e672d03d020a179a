//go:build unix

package procgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain makes the test binary serve as a program that runs a command and can be
// killed.
func TestMain(m *testing.M) {
	if os.Getenv(becomeRootVar) != "" {
		os.Exit(becomeRoot())
	}
	if script := os.Getenv("PROCGROUP_TEST_SCRIPT"); script != "" {
		os.Exit(program(script))
	}
	goleak.VerifyTestMain(m)
}

// program runs script as the command line tool would run it.
func program(script string) int {
	c := sh(script)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if limit, err := time.ParseDuration(os.Getenv("PROCGROUP_TEST_KILL_BY")); err == nil {
		c.KillBy = time.Now().Add(limit)
	}
	c.Suspended = func(bool) { fmt.Println("suspended") }
	c.Denied = func(pid int) { fmt.Printf("denied: %d.\n", pid) }
	stopped := os.Getenv("PROCGROUP_TEST_STOP") != ""
	if stopped {
		c.Stdin = nil
	}
	g, err := Start(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	if stopped { // by a line of input
		_, _ = os.Stdin.Read(make([]byte, 1))
		g.Stop(syscall.SIGTERM, time.Now().Add(time.Hour))
	}
	return g.Wait()
}

// sh is a command that runs script in a shell.
func sh(script string) Command {
	return Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(),
		StopSignal: syscall.SIGTERM, KillAfter: 5 * time.Second, KillBy: time.Now().Add(time.Hour),
		Denied: func(pid int) { panic(fmt.Sprintf("process %d may not be signalled", pid)) },
	}
}

// output is what a command and all its descendants write to. It ends when the
// last of them has.
type output struct {
	t *testing.T
	r *os.File
	w *os.File
}

func newOutput(t *testing.T) *output {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return &output{t: t, r: r, w: w}
}

// await reads until text was written, and returns all that it has read.
func (o *output) await(text string) string {
	o.t.Helper()
	var all strings.Builder
	for !strings.Contains(all.String(), text) {
		var b [256]byte
		_ = o.r.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := o.r.Read(b[:])
		all.Write(b[:n])
		if err != nil {
			o.t.Fatalf("waiting for %q in %q: %v", text, all.String(), err)
		}
	}
	return all.String()
}

// end waits until no process has the output open, and returns the rest of it.
func (o *output) end(within time.Duration) string {
	o.t.Helper()
	o.w.Close()
	_ = o.r.SetReadDeadline(time.Now().Add(within))
	var all strings.Builder
	for {
		var b [256]byte
		n, err := o.r.Read(b[:])
		all.Write(b[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.t.Fatalf("after %s something of the command is still alive", within)
		}
		if err != nil {
			return all.String()
		}
	}
}

func start(t *testing.T, c Command) *Group {
	t.Helper()
	g, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Stop(syscall.SIGKILL, time.Now())
		g.Wait()
	})
	return g
}
