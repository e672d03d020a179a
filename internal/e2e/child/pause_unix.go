//go:build unix

package child

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Pause stops a process with SIGSTOP, and returns when it has stopped: until the
// system has come to each of its threads, those may still send and receive. Where
// there is no /proc the signal has to do.
func Pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	threads := filepath.Join("/proc", fmt.Sprint(p.Pid), "task")
	if _, err := os.Stat("/proc/self/task"); err != nil {
		return nil
	}
	for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(threads); err != nil {
			return fmt.Errorf("process %d ended while it was paused: %w", p.Pid, err)
		}
		if stopped(threads) {
			return nil
		}
	}
	return fmt.Errorf("process %d did not stop", p.Pid)
}

// stopped reports whether no thread of a process runs.
func stopped(threads string) bool {
	files, err := filepath.Glob(filepath.Join(threads, "*", "stat"))
	if err != nil || len(files) == 0 {
		return false
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "id (name) state ...", and the name may contain anything
		if i := bytes.LastIndexByte(stat, ')'); i < 0 || len(stat) < i+3 || !bytes.ContainsRune([]byte("TtZX"), rune(stat[i+2])) {
			return false
		}
	}
	return true
}

// Resume lets a paused process go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
