//go:build unix

// Package guard makes this program a guard: a process that kills a command when the program
// that started it has ended, or can no longer act. A guard is this program, started with a
// hidden argument. To become a guard then, a program only has to import this package. Package
// procgroup starts the guard.
//
// The package imports only few packages, also indirectly, because the command has to wait for
// the start of its guard.
package guard

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Arg is the hidden first argument that makes the program a guard. The second argument is the
// process group that the guard enters when it leaves its own group.
const Arg = "__guard"

// processName is the name of a guard on Linux. It has at most 15 bytes.
const processName = "holdfast-guard"

// Leave is the order to leave the process group. The guard ends if it cannot leave. An order
// below Leave is the process id of the command, negated. Any other order is a time in
// nanoseconds, after which the guard must kill the group. An order is an int64, big-endian. The
// guard sends one byte when signals can no longer end it, and one byte when it has left the
// group.
const Leave = -1

// A guard begins here, and never gets to main. Go initializes this package before nearly all
// others. Their initialization would take four times as long as the rest of the start of a
// guard.
var _ = begin(os.Args[1:])

func begin(args []string) bool {
	if os.Getpid() == 1 && firstProcess(args) {
		os.Exit(reapFor(os.Args))
	}
	if len(args) > 0 && args[0] == Arg {
		os.Exit(serve(args[1:]))
	}
	return false
}

// serve does the work of a guard process, and returns the exit status. It kills its process
// group when the pipe on its standard input closes or its deadline passes.
func serve(args []string) int {
	if len(args) != 1 || syscall.Getpgrp() != os.Getpid() {
		_, _ = os.Stderr.WriteString("holdfast: this command is for internal use\n")
		return 64
	}
	outside, err := strconv.Atoi(args[0])
	if err != nil {
		return 64
	}
	// The name of the process in ps and top; on Linux it would be "exe". Other systems have no such file.
	_ = os.WriteFile("/proc/self/comm", []byte(processName), 0)
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE, syscall.SIGALRM)
	reply()

	var command atomic.Int64 // the process id; 0 before it is known, and after the command has ended
	killGroup := func() {
		if pid := int(command.Load()); pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.EPERM) {
			_, _ = os.Stderr.WriteString("holdfast: the command (pid " + strconv.Itoa(pid) + ") runs as another user: it cannot be killed, and goes on\n")
		}
		_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	}
	obey(outside, &command, time.AfterFunc(math.MaxInt64, killGroup))
	killGroup()                                    // if the guard is still in the group of the command, this call kills it, too
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // a guard needs no clean-up
	return 0
}

// obey reads orders and carries them out until the pipe closes.
func obey(outside int, command *atomic.Int64, deadline *time.Timer) {
	var order int64
	for binary.Read(os.Stdin, binary.BigEndian, &order) == nil {
		switch {
		case order < Leave:
			command.Store(-order)
			continue
		case order != Leave:
			deadline.Reset(time.Duration(order))
			continue
		}
		command.Store(0)
		if err := syscall.Setpgid(0, outside); err != nil {
			os.Exit(1) // the group is not killed: its processes may still obey a signal
		}
		reply()
	}
}

func reply() { _, _ = os.Stdout.Write([]byte{0}) }
