//go:build unix

package guard

import (
	"encoding/binary"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// A guard begins here, and never gets to main. Go initializes this package before nearly all
// others. Their initialization would take four times as long as the rest of the start of a
// guard.
var _ = begin(os.Args[1:])

func begin(args []string) bool {
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
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE, syscall.SIGALRM)
	_, _ = os.Stdout.Write([]byte{Ready})

	timer := time.NewTimer(0)
	timer.Stop()
	closed := make(chan struct{})
	go obey(os.Stdin, os.Stdout, outside, timer, closed) // ends with the process
	select {
	case <-closed:
	case <-timer.C:
	}
	_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	<-closed // a guard that is still in its group does not get here
	_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it needs no clean-up
	return 0
}

// obey reads orders and carries them out until orders closes. Then it closes the channel
// closed.
func obey(orders io.Reader, answers io.Writer, outside int, timer *time.Timer, closed chan<- struct{}) {
	defer close(closed)
	var b [9]byte
	for {
		if _, err := io.ReadFull(orders, b[:1]); err != nil {
			return
		}
		switch b[0] {
		case Leave:
			answer := byte(Leave)
			if err := syscall.Setpgid(0, outside); err != nil {
				answer = Stays
			}
			_, _ = answers.Write([]byte{answer})
		case KillBy:
			if _, err := io.ReadFull(orders, b[1:]); err != nil {
				return
			}
			timer.Reset(time.Duration(binary.BigEndian.Uint64(b[1:])))
		}
	}
}
