package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// goodbye is how long a process may take to end before it is killed.
const goodbye = 2 * time.Second

// process is one process of the demo, seen from the demo.
type process struct {
	name     string
	cmd      *exec.Cmd
	cancel   context.CancelFunc
	stdin    io.WriteCloser
	note     func(key string) // is notified of keys that the library uses there
	messages chan message     // closed when the process is gone
	err      error            // why it ended badly; to be read once messages is closed
}

// start starts a process of the rounds and hands it its job, as startProcess does.
func (d *demo) start(ctx context.Context, j job) (*process, error) {
	j.Access, j.Locks, j.Keys, j.Log = d.access, d.Locks, d.shop.keys, d.log
	return startProcess(ctx, d.Worker, d.Env, j, d.used.add)
}

// startProcess starts a process and hands it its job. note gets the keys that the library
// uses there. The process ends with ctx, and end must be called.
func startProcess(ctx context.Context, command, env []string, j job, note func(key string)) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{name: j.Name, cancel: cancel, note: note, messages: make(chan message)}
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Env = env
	p.cmd.SysProcAttr = ownGroup()
	p.cmd.WaitDelay = goodbye
	p.cmd.Cancel = p.askToEnd
	complaints := &bytes.Buffer{}
	p.cmd.Stderr = complaints

	stdout, err := p.launch()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", j.Name, err)
	}
	go func() {
		defer close(p.messages)
		p.listen(stdout)
		if err := p.cmd.Wait(); err != nil && ctx.Err() == nil {
			p.err = fmt.Errorf("%s: %w", p.name, err)
			if text := bytes.TrimSpace(complaints.Bytes()); len(text) > 0 {
				p.err = fmt.Errorf("%w: %s", p.err, text)
			}
		}
	}()
	_ = json.NewEncoder(p.stdin).Encode(j) // as in say
	return p, nil
}

func (p *process) launch() (stdout io.Reader, err error) {
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return stdout, p.cmd.Start()
}

// listen passes messages on until there will be no more. Those of the end are passed on
// too: end reads what no other goroutine wants.
func (p *process) listen(stdout io.Reader) {
	messages := json.NewDecoder(stdout)
	for {
		var m message
		if messages.Decode(&m) != nil {
			_, _ = io.Copy(io.Discard, stdout) // whatever it prints, it must not block
			return
		}
		if m.Kind == touched {
			p.note(m.Text)
			continue
		}
		p.messages <- m
	}
}

// send sends a word. A process that does not take it is gone, and next knows why.
func (p *process) send(word string) { _, _ = fmt.Fprintln(p.stdin, word) }

// askToEnd closes the input of the process, which makes it give up. A paused
// process would not notice.
func (p *process) askToEnd() error {
	_ = p.resume()
	return p.stdin.Close()
}

// end ends the process, by force if need be, and waits until it is gone.
func (p *process) end() {
	p.cancel()
	for range p.messages { // nobody is interested any more
	}
}

// next returns the next message. A process that failed, or is gone, is an error.
func (p *process) next(ctx context.Context) (message, error) {
	select {
	case m, ok := <-p.messages:
		if !ok && ctx.Err() != nil { // it ended because it had to
			return m, context.Cause(ctx)
		}
		return m, p.verify(m, ok)
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}

// verify answers what is wrong with a message that came, or did not.
func (p *process) verify(m message, ok bool) error {
	switch {
	case !ok && p.err != nil:
		return p.err
	case !ok:
		return fmt.Errorf("%s ended early", p.name)
	case m.Kind == failed:
		return fmt.Errorf("%s: %s", p.name, m.Text)
	}
	return nil
}

// expect returns the next message, which has to be of that kind.
func (p *process) expect(ctx context.Context, want kind) (message, error) {
	m, err := p.next(ctx)
	if err == nil && m.Kind != want {
		err = fmt.Errorf("%s said %q, want %q", p.name, m.Kind, want)
	}
	return m, err
}

// pid returns the number under which the system knows the process.
func (p *process) pid() int { return p.cmd.Process.Pid }
