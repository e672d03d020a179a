package procgroup

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// stopped reports whether process pid was stopped while its group had the
// foreground, that is, by Ctrl-Z.
func stopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
	return err == nil && info.Signo == int32(syscall.SIGCHLD)
}
