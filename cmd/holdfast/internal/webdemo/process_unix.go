//go:build unix

package webdemo

import (
	"os"
	"syscall"
)

// canPause says whether this system can stop a process and let it continue.
const canPause = true

// ownGroup keeps a process out of the terminal's group: on Ctrl-C the instances
// are ended by us, so that they release their locks first. If we are killed
// while one is stopped, the system wakes it, and it finds its input at an end.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
