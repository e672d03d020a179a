package procgroup

import "syscall"

// commandAttr puts the command into group pgid from its first instruction. The
// signal on the death of its parent is a second net under the guard.
func commandAttr(pgid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: pgid, Pdeathsig: syscall.SIGKILL}
}
