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

// process is a process that the demo has started.
type process struct {
	name     string
	cmd      *exec.Cmd
	cancel   context.CancelFunc
	stdin    io.WriteCloser
	note     func(key string) // gets the keys that the library uses there
	messages chan message     // closed when the process is gone
	err      error            // the error with which it ended; read it after messages is closed
}

// start starts a process of the rounds and sends it its job, as startProcess does.
func (d *demo) start(ctx context.Context, j job) (*process, error) {
	j.Access, j.Locks, j.Keys, j.Log = d.access, d.Locks, d.shop.keys, d.log
	return startProcess(ctx, d.Worker, d.Env, j, d.used.add)
}

// startProcess starts a process and sends it its job. note gets the keys that the library
// uses there. The process ends with ctx. The caller must call end.
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
	_ = json.NewEncoder(p.stdin).Encode(j) // an error is ignored, as in send
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

// listen sends the messages of the process to the channel messages until its output ends. The
// receiver must read all of them; end reads those that nobody else reads.
func (p *process) listen(stdout io.Reader) {
	messages := json.NewDecoder(stdout)
	for {
		var m message
		if messages.Decode(&m) != nil {
			_, _ = io.Copy(io.Discard, stdout) // the process must not block, whatever it prints
			return
		}
		if m.Kind == touched {
			p.note(m.Text)
			continue
		}
		p.messages <- m
	}
}

// send sends a word. It ignores an error: the process has ended, and next returns why.
func (p *process) send(word string) { _, _ = fmt.Fprintln(p.stdin, word) }

// askToEnd closes the input of the process, which then ends. It first resumes the process,
// because a paused process would not notice.
func (p *process) askToEnd() error {
	_ = p.resume()
	return p.stdin.Close()
}

// end ends the process, and waits until it has ended. If the process takes longer than
// goodbye, it is killed.
func (p *process) end() {
	p.cancel()
	for range p.messages { // no other goroutine reads them any more
	}
}

// next returns the next message. It returns an error if the process has failed or ended.
func (p *process) next(ctx context.Context) (message, error) {
	select {
	case m, ok := <-p.messages:
		if !ok && ctx.Err() != nil { // the end of ctx has ended it
			return m, context.Cause(ctx)
		}
		return m, p.verify(m, ok)
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}

// verify returns an error if m is a failure, or if ok is false: the process has ended.
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

// expect returns the next message, and an error if it is not of the kind want.
func (p *process) expect(ctx context.Context, want kind) (message, error) {
	m, err := p.next(ctx)
	if err == nil && m.Kind != want {
		err = fmt.Errorf("%s said %q, want %q", p.name, m.Kind, want)
	}
	return m, err
}

// pid returns the process ID.
func (p *process) pid() int { return p.cmd.Process.Pid }
