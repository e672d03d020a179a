package webdemo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// errDeaf says that a process has not taken its orders for too long.
var errDeaf = errors.New("it does not take any more orders")

// process is one life of an instance, seen from the page.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	errors bytes.Buffer
	orders chan order
}

// start starts a process and gives it its task. It ends with ctx; run must be
// called.
func start(ctx context.Context, command, env []string, t task) (*process, error) {
	p := &process{orders: make(chan order, 4*maxJobs)}
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Env = env
	p.cmd.SysProcAttr = ownGroup()
	p.cmd.Stderr = &p.errors
	p.cmd.WaitDelay = goodbye
	p.cmd.Cancel = func() error {
		_ = resume(p.cmd.Process) // a paused process would not notice
		return p.stdin.Close()
	}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	_ = json.NewEncoder(p.stdin).Encode(t) // a process that takes no order is gone, and run knows why
	return p, nil
}

// run passes on messages until the process is gone, and returns why it is.
func (p *process) run(ctx context.Context, hear func(message)) error {
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() { p.dictate(ctx) })
	messages := json.NewDecoder(p.stdout)
	for {
		var m message
		if messages.Decode(&m) != nil {
			break
		}
		hear(m)
	}
	_, _ = io.Copy(io.Discard, p.stdout) // whatever it prints, it must not block
	err := p.cmd.Wait()
	cancel()
	writer.Wait()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(p.errors.Bytes()))
	}
	return nil
}

// dictate hands over orders. A paused process does not read them; then they wait,
// first in the pipe and then here.
func (p *process) dictate(ctx context.Context) {
	orders := json.NewEncoder(p.stdin)
	for {
		select {
		case o := <-p.orders:
			if orders.Encode(o) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// send gives an order. It does not wait.
func (p *process) send(o order) error {
	select {
	case p.orders <- o:
		return nil
	default:
		return errDeaf
	}
}

func (p *process) system() *os.Process { return p.cmd.Process }
