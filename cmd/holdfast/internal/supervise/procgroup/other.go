//go:build !unix

package procgroup

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrUnsupported says that this system has no process groups.
var ErrUnsupported = errors.New("running a command under a lock is not supported on this system")

// Supported says whether Start can run a command on this system.
const Supported = false

// Group is a running command. There is none on this system, so nothing calls its methods.
type Group struct{ methods }

type methods interface {
	Signal(s syscall.Signal)
	Stop(s syscall.Signal, killAt time.Time)
	KillBy(at time.Time)
	Done() <-chan struct{}
	ID() int
	Foreign() bool
	Wait() int
}

// Gone returns true.
func Gone(int) bool { return true }

// Reaped returns true.
func Reaped(int) bool { return true }

// Executable returns ErrUnsupported.
func Executable() (string, error) { return "", ErrUnsupported }

// OwnGroup returns nil.
func OwnGroup() *syscall.SysProcAttr { return nil }

// Start returns ErrUnsupported.
func Start(Command) (*Group, error) { return nil, ErrUnsupported }

// Suspending is no signal: nothing suspends a program here.
const Suspending = syscall.Signal(-1)

// Signals returns the signals that end a program.
func Signals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// Ends returns true.
func Ends(os.Signal) bool { return true }

// ParseSignal returns ErrUnsupported.
func ParseSignal(string) (syscall.Signal, error) { return 0, ErrUnsupported }
