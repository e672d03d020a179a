//go:build unix && !linux

package sqltest

import "syscall"

// diesWithParent can do nothing here.
func diesWithParent(*syscall.SysProcAttr) {}
