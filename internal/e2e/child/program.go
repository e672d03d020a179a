package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// ErrPortTaken says that somebody else took a port between choosing and binding it.
var ErrPortTaken = errors.New("port is taken")

// UntilPortsAreFree calls run, which chooses ports, again while somebody else takes one.
func UntilPortsAreFree[Server any](run func() (Server, error)) (s Server, err error) {
	for range 20 {
		if s, err = run(); !errors.Is(err, ErrPortTaken) {
			break
		}
	}
	return s, err
}

// Program is one that runs in the background, and may be started again after it has
// ended. The zero Program was not started. Its methods may be called from several
// goroutines at once.
type Program struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	done <-chan struct{}
}

// Run starts cmd, which writes its output to a new file log. The channel is
// closed when it has ended.
func (p *Program) Run(cmd *exec.Cmd, log string) (done <-chan struct{}, err error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	done, err = Start(cmd, func() {
		_ = cmd.Wait() // how it ended is in its log
		_ = out.Close()
	})
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.done = cmd, done
	return done, nil
}

// Serve runs cmd as Run does, and returns when ready does; done is closed when cmd has
// ended. Without an answer it kills cmd.
func (p *Program) Serve(cmd *exec.Cmd, log string, ready func(done <-chan struct{}) error) error {
	done, err := p.Run(cmd, log)
	if err != nil {
		return err
	}
	if err = ready(done); err == nil {
		return nil
	}
	p.Kill()
	said, _ := os.ReadFile(log)
	if bytes.Contains(bytes.ToLower(said), []byte("address already in use")) {
		return ErrPortTaken
	}
	return fmt.Errorf("%w\n%s", err, said)
}

// Kill kills the program, and waits until it is gone. It may be called again.
func (p *Program) Kill() {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	if cmd == nil { // it could not be started
		return
	}
	_ = cmd.Process.Kill() // fails only where it has ended already
	<-done
}

// PID returns the process of the program.
func (p *Program) PID() int { return p.process().Pid }

// Pause stops the process of the program, until Resume.
func (p *Program) Pause() error { return Pause(p.process()) }

// Resume lets the process go on.
func (p *Program) Resume() error { return Resume(p.process()) }

func (p *Program) process() *os.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process
}
