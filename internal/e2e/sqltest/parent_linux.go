package sqltest

import "syscall"

// diesWithParent makes the system kill the server when this process ends,
// however it ends.
func diesWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
