//go:build unix && !linux

package procgroup

import "syscall"

// commandAttr puts the command into group pgid from its first instruction.
func commandAttr(pgid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: pgid}
}
