package holdfast

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Errors to test for with errors.Is. What a store cannot do answers
// errors.ErrUnsupported; the store's own error stays reachable with errors.As.
var (
	// ErrBusy: somebody else holds the name. Errors that are ErrBusy are a
	// *BusyError.
	ErrBusy = errors.New("held by another")

	// ErrLost: the lock ended before it was unlocked. Errors that are ErrLost are
	// a *LostError.
	ErrLost = errors.New("lock lost")

	// ErrUnlocked: the lock was unlocked already.
	ErrUnlocked = errors.New("already unlocked")

	// ErrDeadlock: the caller would wait for itself.
	ErrDeadlock = errors.New("would wait for itself")

	// ErrMismatch: the name is in use for another kind of lock, or for data.
	ErrMismatch = driver.ErrMismatch
)

// BusyError says who holds a name.
type BusyError struct {
	Name      string
	Holder    string        // for people; "" if the store does not tell
	Remaining time.Duration // what is left of the holder's lease if it is not renewed; 0 if unknown
	Held      time.Duration // for how long the holder has held it; 0 if unknown
}

// Error names the lock, its holder, for how long it has been held and when the
// lease ends.
func (e *BusyError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another client"
	}
	if e.Held >= time.Second { // most locks are over before: it would say nothing
		holder += " for " + coarse(e.Held).String()
	}
	if e.Remaining <= 0 {
		return fmt.Sprintf("lock %q is held by %s", e.Name, holder)
	}
	return fmt.Sprintf("lock %q is held by %s, lease ends in %s", e.Name, holder, coarse(e.Remaining))
}

// Is reports that a BusyError is ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// LostError says why a lock ended before it was unlocked.
type LostError struct {
	Name   string
	Reason driver.Reason
	Cause  error // what the store said last; may be nil
}

// Error names the lock and the reason.
func (e *LostError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("lock %q lost: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("lock %q lost: %s: %v", e.Name, e.Reason, e.Cause)
}

// Is reports that a LostError is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// coarse rounds a duration to what a person wants to read.
func coarse(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Millisecond)
	}
}
