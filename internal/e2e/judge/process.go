package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// Process is a worker process that reports Events on its standard output, until
// it is asked to end. Its methods may be called from several goroutines at once.
type Process struct {
	id     int
	cmd    *exec.Cmd
	orders io.WriteCloser  // its standard input
	stderr bytes.Buffer    // read only when it is gone
	done   <-chan struct{} // closed when it is gone
	hear   func(Event)

	mu     sync.Mutex
	events []Event
	passed int           // so many of events were returned by Until
	more   chan struct{} // closed when there is another event
	killed bool
	err    error
}

// Start starts cmd, whose standard streams must not be set, as the process with
// number id. hear, if not nil, is called for each Event as it arrives, and must
// not call the Process. On Linux the process ends with this one.
func Start(id int, cmd *exec.Cmd, hear func(Event)) (*Process, error) {
	p := &Process{id: id, cmd: cmd, hear: hear, more: make(chan struct{})}
	cmd.Stderr = &p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.orders = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.done, err = child.Start(cmd, func() { p.listen(out) }); err != nil {
		return nil, err
	}
	return p, nil
}

// listen collects the lines of the process until it is gone.
func (p *Process) listen(out io.Reader) {
	lines := json.NewDecoder(out)
	for {
		var e Event
		if lines.Decode(&e) != nil {
			break // the end, or half a line of a process that was killed
		}
		e.Process = p.id
		p.add(e)
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
}

func (p *Process) add(e Event) {
	p.mu.Lock()
	p.events = append(p.events, e)
	close(p.more)
	p.more = make(chan struct{})
	p.mu.Unlock()
	if p.hear != nil {
		p.hear(e)
	}
}

// ID returns the number of the process.
func (p *Process) ID() int { return p.id }

// Done returns a channel that is closed when the process is gone and has
// reported all that it will.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns nil while the process runs and when it ended as it should, or by
// Kill; otherwise how it ended, with what it said on its standard error.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed || p.err == nil {
		return nil
	}
	return fmt.Errorf("process %d: %w: %s", p.id, p.err, p.stderr.String())
}

// Events returns what the process has reported so far.
func (p *Process) Events() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// Take is Events, and forgets them.
func (p *Process) Take() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events, p.passed = nil, 0
	return events
}

// Until waits until the process reports what, and returns all events since the last call, up to
// that one, also those that Note added. It returns an error if the process ends before, or does
// not report it within limit.
func (p *Process) Until(what string, limit time.Duration) ([]Event, error) {
	over := time.NewTimer(limit)
	defer over.Stop()
	for gone := false; ; {
		passed, more := p.pass(what)
		switch {
		case passed != nil:
			return passed, nil
		case gone:
			return nil, fmt.Errorf("process %d ended (%v), and has not reported %q: %v", p.id, p.Err(), what, p.Events())
		}
		select {
		case <-more:
		case <-p.done:
			gone = true // what it has reported last comes before that
		case <-over.C:
			return nil, fmt.Errorf("process %d has not reported %q within %v: %v", p.id, what, limit, p.Events())
		}
	}
}

// pass returns the events after those that were passed, up to the first of a kind. If there is
// none of that kind, it returns nil, and a channel that is closed when there is another event.
func (p *Process) pass(what string) (passed []Event, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.events[p.passed:]
	n := slices.IndexFunc(left, func(e Event) bool { return e.What == what })
	if n < 0 {
		return nil, p.more
	}
	p.passed += n + 1
	return slices.Clone(left[:n+1]), p.more
}

// Note adds an event that the process cannot report itself, and returns when
// that was.
func (p *Process) Note(what string) time.Time {
	now := time.Now()
	p.add(Event{At: now.UnixNano(), What: what, Op: -1, Process: p.id})
	return now
}

// Stall adds that the process did not run between two moments, as the caller knows.
func (p *Process) Stall(from, to time.Time) {
	p.add(Event{At: to.UnixNano(), What: Stalled, Op: -1, Process: p.id, Left: int64(to.Sub(from))})
}

// Stacks ends the process with SIGQUIT, and returns what it said on its standard error:
// where its goroutines were. It waits for five seconds at most.
func (p *Process) Stacks() string {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err.Error()
	}
	select {
	case <-p.done:
		return p.stderr.String()
	case <-time.After(5 * time.Second):
		return "it does not end"
	}
}

// Kill ends the process with SIGKILL, if it has not ended, and waits until it is
// gone.
func (p *Process) Kill() {
	select {
	case <-p.done:
		return
	default:
	}
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.Note(Killed)
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Pause stops the process with SIGSTOP, and returns when it has stopped.
func (p *Process) Pause() {
	p.Note(Paused)
	_ = child.Pause(p.cmd.Process) // fails only where it has ended
}

// Resume lets the process go on and returns when that was.
func (p *Process) Resume() time.Time {
	at := p.Note(Resumed)
	_ = child.Resume(p.cmd.Process)
	return at
}

// Send writes v as a line of JSON to the process' standard input.
func (p *Process) Send(v any) error { return json.NewEncoder(p.orders).Encode(v) }

// Stop asks the process to come to an end by closing its standard input.
func (p *Process) Stop() { _ = p.orders.Close() }
