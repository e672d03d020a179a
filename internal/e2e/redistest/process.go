package redistest

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// process is one run of a server.
type process struct {
	cmd  *exec.Cmd
	done <-chan struct{} // closed when the process is gone
}

// startProcess starts program with the configuration file conf, then args, with
// env added to its environment, and appends what it prints to the file log.
func startProcess(program, conf, log string, args, env []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append([]string{conf}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), env...)
	done, err := child.Start(cmd, func() {
		_ = cmd.Wait() // how it ended is in its log
		_ = out.Close()
	})
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return &process{cmd, done}, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only where it has ended already
	<-p.done
}

func (p *process) pause() error { return child.Pause(p.cmd.Process) }

func (p *process) resume() error { return child.Resume(p.cmd.Process) }
