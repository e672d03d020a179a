//go:build unix

package procgroup

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Suspending is the signal of Ctrl-Z.
const Suspending = syscall.SIGTSTP

// Signals returns the signals that a wrapper passes on to its command, and Suspending.
func Signals() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, Suspending,
	}
}

// Ends reports whether s ends programs. Such a signal also prevents the start of a command that
// has not started yet.
func Ends(s os.Signal) bool {
	return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 && s != Suspending
}

// ParseSignal returns the signal with a name such as "TERM" or "SIGTERM".
func ParseSignal(name string) (syscall.Signal, error) {
	s := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	if s == 0 {
		return 0, fmt.Errorf("%q is no signal; use a name such as TERM or INT", name)
	}
	return s, nil
}
