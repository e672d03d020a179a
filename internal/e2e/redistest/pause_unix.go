//go:build unix

package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitStopped()
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// awaitStopped waits until the system has stopped the process, which it does
// shortly after the signal was sent. Where there is no /proc the signal has to
// do.
func (p *process) awaitStopped() error {
	stat := fmt.Sprintf("/proc/%d/stat", p.pid())
	if _, err := os.Stat(stat); err != nil {
		return nil
	}
	for range 2000 {
		b, err := os.ReadFile(stat)
		if err != nil {
			return fmt.Errorf("the server ended while it was paused: %w", err)
		}
		// "pid (name) state ...", and the name may contain anything
		if i := bytes.LastIndexByte(b, ')'); i >= 0 && bytes.HasPrefix(b[i:], []byte(") T")) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d did not stop", p.pid())
}
