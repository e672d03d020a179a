package peer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// Process is a running program.
type Process struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended <-chan struct{}
	log   tail

	mu      sync.Mutex
	last    int64
	pending map[int64]chan Reply
}

// Start starts a program and returns when it says that it is ready: with an
// answer to no command, whose id is 0. The program ends with t.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, pending: map[int64]chan Reply{}}
	ready := make(chan Reply, 1)
	p.pending[0] = ready
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &p.log
	if p.ended, err = child.Start(cmd, func() { p.read(stdout) }); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	t.Cleanup(p.stop)
	select {
	case <-ready:
	case <-p.ended:
		t.Fatalf("%s ended before it was ready:\n%s", cmd.Path, p.log.String())
	case <-time.After(time.Minute):
		t.Fatalf("%s was not ready within a minute:\n%s", cmd.Path, p.log.String())
	}
	return p
}

// Go sends c and returns where the answer will be. The channel is closed without
// one if the program ends first.
func (p *Process) Go(c Command) <-chan Reply {
	answer := make(chan Reply, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	c.ID = p.last
	if p.pending == nil {
		close(answer)
		return answer
	}
	p.pending[c.ID] = answer
	line, err := json.Marshal(c)
	if err == nil {
		// Commands are few and short: the pipe takes them without waiting, unless
		// the program stands still, and then thousands fit.
		_, err = p.stdin.Write(append(line, '\n'))
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		p.t.Errorf("send %+v: %v", c, err)
	}
	return answer
}

// Do sends c and returns its answer; whatever was thrown fails the test.
func (p *Process) Do(c Command) Reply {
	p.t.Helper()
	r := p.Try(c)
	if err := r.Err(); err != nil {
		p.t.Fatalf("%s %s %q: %v", c.Op, c.Kind, c.Name, err)
	}
	return r
}

// Try sends c and returns its answer, which may be something thrown.
func (p *Process) Try(c Command) Reply {
	p.t.Helper()
	return p.Await(c, p.Go(c), c.patience())
}

// Await returns the answer to c, which has to come within limit.
func (p *Process) Await(c Command, answer <-chan Reply, limit time.Duration) Reply {
	p.t.Helper()
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case r, ok := <-answer:
		if !ok {
			p.t.Fatalf("%s %s %q: the program ended:\n%s", c.Op, c.Kind, c.Name, p.log.String())
		}
		return r
	case <-over.C:
		p.t.Fatalf("%s %s %q: no answer within %v\n%s", c.Op, c.Kind, c.Name, limit, p.log.String())
	}
	return Reply{}
}

// patience is how long the answer to c may take.
func (c Command) patience() time.Duration {
	return time.Duration(c.Wait)*time.Millisecond + 30*time.Second
}

// Pause stops the program as SIGSTOP does, returns when it has stopped, and Resume
// lets it go on.
func (p *Process) Pause() { p.signal("pause", child.Pause) }

// Resume lets a paused program go on.
func (p *Process) Resume() { p.signal("resume", child.Resume) }

// Kill ends the program as SIGKILL does, and returns when it has ended.
func (p *Process) Kill() {
	p.signal("kill", (*os.Process).Kill)
	<-p.ended
}

func (p *Process) signal(what string, send func(*os.Process) error) {
	p.t.Helper()
	if err := send(p.cmd.Process); err != nil {
		p.t.Errorf("%s: %v", what, err)
	}
}

// stop closes the program's input, which ends it, and kills it if that does not.
func (p *Process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	if p.t.Failed() && p.log.Len() > 0 {
		p.t.Logf("%s wrote:\n%s", p.cmd.Path, p.log.String())
	}
}

// read hands out the answers until there are no more.
func (p *Process) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r := Reply{Received: time.Now()}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintf(&p.log, "not an answer: %s\n", lines.Bytes())
			continue
		}
		p.mu.Lock()
		answer := p.pending[r.ID]
		delete(p.pending, r.ID)
		p.mu.Unlock()
		if answer != nil {
			answer <- r
		}
	}
	_ = p.cmd.Wait()
	p.mu.Lock()
	for _, answer := range p.pending {
		close(answer)
	}
	p.pending = nil
	p.mu.Unlock()
}

// tail keeps the last of what a program wrote.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (b *tail) Write(p []byte) (int, error) {
	const kept = 16 << 10
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - kept; over > 0 {
		b.buf = bytes.Clone(b.buf[over:])
	}
	return len(p), nil
}

// String returns what is kept.
func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}

// Len returns how much is kept.
func (b *tail) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.buf)
}
