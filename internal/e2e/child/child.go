// Package child starts programs that do not outlive the test that started them,
// however it ends.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts cmd. attend is run in a goroutine of its own as soon as it runs; it
// has to call cmd.Wait, and may before that read what cmd prints. The channel is
// closed when attend has returned. If cmd cannot be started attend is not run.
//
// On Linux the system kills a child whose parent thread ends (Pdeathsig: the
// thread, not the process). So the thread that starts cmd belongs to one goroutine,
// which stays until attend returns. It kills also one that is stopped, and would
// not see its input close. Elsewhere a child outlives a test that is killed.
func Start(cmd *exec.Cmd, attend func()) (ended <-chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	dieWithParent(cmd.SysProcAttr)
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			attend()
		}
	}()
	if err := <-started; err != nil {
		<-done
		return nil, err
	}
	return done, nil
}
