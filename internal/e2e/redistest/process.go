package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// process is one run of redis-server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
}

// startProcess starts redis-server with the configuration file conf, then args,
// with env added to its environment, and appends what it prints to the file log.
//
// On Linux the system kills a child whose parent thread ends (Pdeathsig: the
// thread, not the process). So the thread that starts the server belongs to
// one goroutine, which stays until the server is gone.
func startProcess(conf, log string, args, env []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(program, append([]string{conf}, args...)...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = diesWithParent()

	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		defer func() { _ = out.Close() }()
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only where it has ended already
	<-p.done
}
