//go:build unix

package demo

import "syscall"

// canPause is whether this system can stop a process and let it continue.
const canPause = true

// ownGroup returns attributes that start a process in a process group of its own. Ctrl-C in
// the terminal then does not reach the process. Instead the demo closes the input of the
// process, and reads its messages until it ends. If the demo is killed while the process is
// stopped, the system continues and ends the process, because its group then has no parent
// (POSIX, orphaned process groups).
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (p *process) pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
