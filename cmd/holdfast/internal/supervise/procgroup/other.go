//go:build !unix

package procgroup

import (
	"os"
	"syscall"
	"time"
)

// Supported says whether Start can run a command on this system.
const Supported = false

// Group is a running command. There is none on this system.
type Group struct{}

// Start returns ErrUnsupported.
func Start(Command) (*Group, error) { return nil, ErrUnsupported }

// Signal does nothing.
func (g *Group) Signal(syscall.Signal) {}

// Stop does nothing.
func (g *Group) Stop(syscall.Signal, time.Time) {}

// KillBy does nothing.
func (g *Group) KillBy(time.Time) {}

// Done returns nil.
func (g *Group) Done() <-chan struct{} { return nil }

// Wait returns 125.
func (g *Group) Wait() int { return 125 }

// Forwarded returns the signals that end a program.
func Forwarded() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// Suspending returns nil: nothing suspends a program here.
func Suspending() os.Signal { return nil }

// Ends returns true.
func Ends(os.Signal) bool { return true }

// ParseSignal returns ErrUnsupported for all but TERM.
func ParseSignal(name string) (syscall.Signal, error) {
	if name == "TERM" {
		return syscall.SIGTERM, nil
	}
	return 0, ErrUnsupported
}
