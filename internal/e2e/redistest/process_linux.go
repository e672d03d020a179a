package redistest

import "syscall"

// diesWithParent makes the system kill the server when this process ends,
// however it ends.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
