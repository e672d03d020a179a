//go:build unix && !linux

package procgroup

import (
	"errors"
	"syscall"
)

// gone reports whether the group has no process any more.
func gone(pgid int) bool {
	return errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH)
}
