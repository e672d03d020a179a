package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"
)

// goodbye is how long a process may take to end before it is killed.
const goodbye = 2 * time.Second

// process is a process that the demo has started.
type process struct {
	name   string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stdin  io.WriteCloser
	heard  chan message  // gets the messages that expect returns; nil for a process of an instance
	gone   chan struct{} // closed when the process has ended and all of its messages were heard

	shown *run // the process in the timeline of the page; nil if it is not of an instance
}

// start starts a process for a round. It sends the messages of the process to the channel
// `heard`, except those of kind touched: it records their keys in d.used.
func (d *demo) start(ctx context.Context, j job, heard chan message) (*process, error) {
	j.Access, j.Locks, j.Keys, j.Log = d.server.access, d.Locks, d.shop.keys, d.log
	p, err := startProcess(ctx, d.Worker, d.Env, j, func(ctx context.Context, m message) {
		switch m.Kind {
		case touched:
			d.used.Store(m.Text, true)
			return
		case failed, died:
			m.Text = j.Name + ": " + m.Text
		}
		select {
		case heard <- m:
		case <-ctx.Done(): // the demo ends the process, and reads no more
		}
	})
	if err != nil {
		return nil, err
	}
	p.heard = heard
	d.processes = append(d.processes, p)
	return p, nil
}

// endProcesses ends all processes of a round.
func (d *demo) endProcesses() {
	for _, p := range d.processes {
		p.cancel() // ask all processes to end, and only then wait
	}
	for _, p := range d.processes {
		<-p.gone
	}
	d.processes = nil
}

// startProcess starts a process and sends it its job. It calls the function `hear` for each
// message, one after the other. When ctx ends, or the function p.cancel is called, the context
// of `hear` ends, and the process is asked to end. If the process still runs after the time
// goodbye, it is killed. The process also ends after its last message. The caller must wait for
// p.gone.
func startProcess(ctx context.Context, command, env []string, j job, hear func(context.Context, message)) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{name: j.Name, cancel: cancel, gone: make(chan struct{})}
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
		defer close(p.gone)
		defer cancel()
		complete := p.listen(stdout, func(m message) { hear(ctx, m) })
		_ = p.cmd.Wait()
		if !complete && ctx.Err() == nil {
			hear(ctx, message{Kind: died, Text: fmt.Sprintf("ended early with %s: %s", p.cmd.ProcessState, bytes.TrimSpace(complaints.Bytes()))})
		}
	}()
	_ = json.NewEncoder(p.stdin).Encode(j) // the comment of send says why the error is ignored
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

// listen calls `hear` for the messages of the process until its output ends. It reports whether
// the last message was among them. After the last message, listen closes the input of the
// process, so that the process ends.
func (p *process) listen(stdout io.Reader, hear func(message)) (complete bool) {
	messages := json.NewDecoder(stdout)
	for {
		var m message
		if messages.Decode(&m) != nil {
			_, _ = io.Copy(io.Discard, stdout) // the process must not block, whatever it prints
			return complete
		}
		if m.Kind == done || m.Kind == failed {
			complete = true
			_ = p.stdin.Close()
		}
		hear(m)
	}
}

// send sends a word. It ignores errors, because a message reports the end of the process.
func (p *process) send(word string) { _, _ = fmt.Fprintln(p.stdin, word) }

// askToEnd closes the input of the process, which then ends. It first resumes the process,
// because a paused process would not notice.
func (p *process) askToEnd() error {
	_ = p.resume()
	return p.stdin.Close()
}

// expect returns the next message of p. It returns an error if the process has failed, or if
// `want` does not have the kind of the message.
func (d *demo) expect(ctx context.Context, p *process, want ...kind) (m message, err error) {
	asked := time.Now()
	for tick := time.Tick(100 * time.Millisecond); m.Kind == ""; {
		select {
		case m = <-p.heard:
		case <-tick:
			d.status("waiting for %s, %s", p.name, time.Since(asked).Round(100*time.Millisecond))
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
	switch {
	case m.Kind == failed, m.Kind == died:
		return m, errors.New(m.Text)
	case !slices.Contains(want, m.Kind):
		return m, fmt.Errorf("%s said %q, want %q", p.name, m.Kind, want)
	}
	return m, nil
}

// PID returns the process ID.
func (p *process) PID() int { return p.cmd.Process.Pid }
