//go:build unix && !linux

package procgroup

import (
	"errors"
	"syscall"
)

// gone reports whether nothing is left of the group.
func gone(pgid int) bool {
	return errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH)
}
