//go:build !linux

package redistest

import "syscall"

// diesWithParent has no counterpart outside of Linux: a server outlives a test
// binary that is killed.
func diesWithParent() *syscall.SysProcAttr { return nil }
