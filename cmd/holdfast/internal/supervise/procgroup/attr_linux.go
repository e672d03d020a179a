package procgroup

import "syscall"

// commandAttr puts the command into group pgid from its first instruction. If the guard
// fails, the system still kills the command when its parent ends.
func commandAttr(pgid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: pgid, Pdeathsig: syscall.SIGKILL}
}
