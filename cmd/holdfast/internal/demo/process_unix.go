//go:build unix

package demo

import "syscall"

// canPause says whether this system can stop a process and let it continue.
const canPause = true

// ownGroup keeps a process out of the terminal's group. On Ctrl-C the demo closes the input
// of its processes, and reads their messages until they end. If the demo is killed while
// one of them is stopped, the system wakes and ends that one, because its group
// then has no parent (POSIX, orphaned process groups).
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (p *process) pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
