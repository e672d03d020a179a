//go:build unix

package procgroup

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Forwarded returns the signals that a wrapper passes on to its command.
func Forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	}
}

// Suspending returns the signal of Ctrl-Z.
func Suspending() os.Signal { return syscall.SIGTSTP }

// Ends reports whether s ends programs: a command that has not started yet is then not
// started.
func Ends(s os.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }

// ParseSignal returns the signal with a name such as "TERM" or "SIGTERM".
func ParseSignal(name string) (syscall.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	s := unix.SignalNum(full)
	if s == 0 {
		return 0, fmt.Errorf("%q is no signal; use a name such as TERM or INT", name)
	}
	return s, nil
}
