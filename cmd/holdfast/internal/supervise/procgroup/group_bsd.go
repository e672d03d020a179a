//go:build unix && !linux

package procgroup

import (
	"errors"
	"syscall"
)

// commandAttr puts the command into group pgid from its first instruction.
func commandAttr(pgid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: pgid}
}

// stopped returns false: on this system, a check could consume the status that Wait needs.
func stopped(int) bool { return false }

// Gone reports whether the group has no process any more.
func Gone(pgid int) bool {
	return errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH)
}
