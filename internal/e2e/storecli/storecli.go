//go:build unix

// Package storecli tries the command line tool on stores that are no Redis, built and run
// as users do.
package storecli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Store is a real store, which is ready for locks.
type Store struct {
	// URL returns the URL of the store behind addr, a host and a port.
	URL func(addr string) string
	// Network and Addr are where its server listens.
	Network, Addr string
	// Name is what the tool calls the store, and Backend what commands find in
	// HOLDFAST_BACKEND.
	Name, Backend string
	// Shown is what pages and lists show of a lock.
	Shown Shown
	// NoAtLeast means that the store cannot keep the name of a lock after its release.
	NoAtLeast bool
}

// Tool is the command line tool, in front of a store.
type Tool struct {
	t      testing.TB
	binary string
	store  Store
	way    *gateway // to the store
}

// New builds the tool for a store.
func New(t testing.TB, s Store) *Tool {
	t.Helper()
	must.HearSignals(os.Interrupt)
	return Built(t, s, must.Build(t))
}

// Built returns the tool for a store, which is built already.
func Built(t testing.TB, s Store, binary string) *Tool {
	t.Helper()
	return &Tool{t: t, binary: binary, store: s, way: newGateway(t, s.Network, s.Addr)}
}

// URL returns a URL of the store.
func (c *Tool) URL() string { return c.store.URL(c.way.address()) }

// In returns the tool for another test, with a way of its own to the store.
func (c *Tool) In(t testing.TB) *Tool {
	t.Helper()
	return &Tool{t: t, binary: c.binary, store: c.store, way: newGateway(t, c.store.Network, c.store.Addr)}
}

// Program is the tool at work.
type Program struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  output   // on both outputs
	alive *os.File // ends with the last of what was started; nil without one
}

// output is what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Start starts the tool with args.
func (c *Tool) Start(args ...string) *Program {
	c.t.Helper()
	return c.start(nil, args...)
}

func (c *Tool) start(environ []string, args ...string) *Program {
	c.t.Helper()
	p := &Program{t: c.t, cmd: exec.Command(c.binary, args...)}
	p.cmd.Env = append(append(os.Environ(), "HOLDFAST_URL="+c.URL()), environ...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.WaitDelay = time.Second
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// startAlive starts the tool with a command that opens the pipe $ALIVE and says ready
// there. It does not wait for that.
func (c *Tool) startAlive(args ...string) *Program {
	c.t.Helper()
	fifo := filepath.Join(c.t.TempDir(), "alive")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		c.t.Fatal(err)
	}
	alive, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { alive.Close() })
	p := c.start([]string{"ALIVE=" + fifo}, args...)
	p.alive = alive
	return p
}

// ready waits until the command of startAlive runs, and returns when that was.
func (p *Program) ready(within time.Duration) (time.Time, error) {
	said := make([]byte, len("ready\n"))
	got := 0
	_ = p.alive.SetReadDeadline(time.Now().Add(within))
	if !await.Eventually(within, func() bool { // nothing reports that a pipe is opened for writing
		n, _ := p.alive.Read(said[got:])
		got += n
		return got == len(said)
	}) {
		return time.Time{}, fmt.Errorf("the command does not run after %s: %s", within, p.said.String())
	}
	return time.Now(), nil
}

// gone waits until nothing of the command is alive.
func (p *Program) gone(within time.Duration) {
	p.t.Helper()
	_ = p.alive.SetReadDeadline(time.Now().Add(within))
	if _, err := io.Copy(io.Discard, p.alive); err != nil {
		p.t.Fatalf("after %s something of the command is still alive: %v", within, err)
	}
}

// End closes the standard input of the tool, which ends hold.
func (p *Program) End() { _ = p.stdin.Close() }

// endLimit is how long a tool under test may run. It is longer than any case takes on a machine
// under load.
const endLimit = 2 * time.Minute

// Want waits for the end of the tool, and for its status and what it has said on both
// outputs. It kills a tool that does not end within endLimit.
func (p *Program) Want(code int, says ...string) {
	p.t.Helper()
	tooLate := time.AfterFunc(endLimit, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	if !tooLate.Stop() {
		p.t.Errorf("%q: did not end within %v", p.cmd.Args[1:], endLimit)
	}
	said := p.said.String()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("%q: got status %d, want %d; it said: %s", p.cmd.Args[1:], got, code, said)
	}
	for _, text := range says {
		if !strings.Contains(said, text) {
			p.t.Errorf("%q said %q, want it to contain %q", p.cmd.Args[1:], said, text)
		}
	}
}

// Hides fails if the tool, which has ended, has said text on either output.
func (p *Program) Hides(text string) {
	p.t.Helper()
	if said := p.said.String(); strings.Contains(said, text) {
		p.t.Errorf("%q said %q, want it without %q", p.cmd.Args[1], said, text)
	}
}

// token returns the fencing token that hold has printed.
func (p *Program) token() string {
	_, after, _ := strings.Cut(p.said.String(), "token ")
	token, _, _ := strings.Cut(after, ",")
	return token
}

// Await waits until the tool has said something.
func (p *Program) Await(text string) {
	p.t.Helper()
	await.Until(p.t, 20*time.Second, "the tool says "+text, func() bool { return strings.Contains(p.said.String(), text) })
}

// Hold starts to hold a lock by hand, and returns when it is held. Program.End ends it.
func (c *Tool) Hold(name string) *Program {
	c.t.Helper()
	p := c.Start("hold", "-t", "5s", "--reason", "maintenance", name)
	p.Await("held \"" + name + "\"")
	return p
}
