//go:build !linux

package peer

import "syscall"

// diesWithParent has no counterpart outside of Linux.
func diesWithParent() *syscall.SysProcAttr { return nil }
