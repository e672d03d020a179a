package peer

import "syscall"

// diesWithParent makes the system kill the program when this process ends,
// however it ends: also one that is stopped, and does not see its input close.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
