package guard

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"unsafe"
)

// firstProcess reports whether the first process of a container has to reap: it has, if the
// program runs a command, whose orphans become its children.
func firstProcess(args []string) bool {
	return slices.Contains(args, "run") || slices.Contains(args, "elect")
}

// reapFor runs this program once more, as a child, and returns its exit status. Meanwhile it does
// what the first process of a container has to do: it reaps all processes that have lost their
// parent, and passes on each signal.
func reapFor(args []string) int {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	if isTerminal(0) { // Ctrl-C is for the child alone, which would otherwise get it twice
		attr.Sys.Foreground = true
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	child, err := syscall.ForkExec("/proc/self/exe", args, attr)
	if err != nil {
		_, _ = os.Stderr.WriteString("holdfast: start as a child of the first process: " + err.Error() + "\n")
		return 125
	}
	go func() {
		for s := range signals {
			if n, ok := s.(syscall.Signal); ok && n != syscall.SIGCHLD && n != syscall.SIGURG { // Go itself sends SIGURG
				_ = syscall.Kill(child, n)
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR: //nolint:errorlint // a system call returns it as it is
		case err != nil:
			return 125
		case pid == child && status.Exited():
			return status.ExitStatus()
		case pid == child && status.Signaled():
			return 128 + int(status.Signal())
		}
	}
}

// isTerminal reports whether a file descriptor is a terminal that has a foreground group.
func isTerminal(fd uintptr) bool {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group))) //nolint:gosec // the system fills it in
	return errno == 0
}
