package holdfast

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// Errors to test for with errors.Is. A call that the store cannot perform returns
// errors.ErrUnsupported. errors.As finds the error of the store in an error that contains it.
var (
	// ErrBusy: another client holds the lock. The error is also a *BusyError.
	ErrBusy = errors.New("held by another")

	// ErrLost: the lock ended before Unlock. The error is also a *LostError.
	ErrLost = errors.New("lock lost")

	// ErrUnlocked: Unlock was called before.
	ErrUnlocked = errors.New("already unlocked")

	// ErrDeadlock: the caller would wait for itself.
	ErrDeadlock = errors.New("would wait for itself")

	// ErrMismatch: the name is in use for another kind of lock, or for data.
	ErrMismatch = driver.ErrMismatch
)

// BusyError is the error for a lock that another client holds. It names that client.
type BusyError struct {
	Name      string
	Holder    string        // a text for people; "" if the store does not know it
	Remaining time.Duration // the rest of the holder's lease without a renewal; 0 if unknown
	HeldFor   time.Duration // how long the holder has held the lock; 0 if unknown

	// Until is set if nobody holds the lock any more, but AtLeast keeps its name taken until
	// then. Holder is then the last holder.
	Until time.Time

	here bool // the holder is a goroutine of the same Locker, which the text says: a caller that waits for itself finds its mistake sooner
}

// Error returns a text with the lock, its holder, how long it has been held and when the lease
// ends, or until when AtLeast keeps the lock.
func (e *BusyError) Error() string {
	text := fmt.Sprintf("lock %q is %s", e.Name, e.taken())
	if !e.Until.IsZero() {
		return text
	}
	if e.HeldFor >= time.Second { // most locks are held for a shorter time, and such a time helps no reader
		text += " for " + coarse(e.HeldFor).String()
	}
	if e.Remaining > 0 {
		text += ", lease ends in " + coarse(e.Remaining).String()
	}
	return text
}

// taken returns the part of the text that names the holder. If AtLeast keeps the lock, that
// part names the last holder, and the time until which the lock is kept.
func (e *BusyError) taken() string {
	holder := cmp.Or(e.Holder, "another client")
	switch {
	case e.here:
		return "held by " + holder + " (a goroutine of this Locker)"
	case e.Until.IsZero():
		return "held by " + holder
	}
	return clock.TakenUntil(e.Until) + " (kept by " + holder + ")"
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// LostError is the error of a lock that ended before Unlock. It has the reason.
type LostError struct {
	Name   string
	Reason driver.Reason
	Cause  error // the last error of the store; may be nil
}

// Error returns a text with the lock and the reason.
func (e *LostError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("lock %q lost: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("lock %q lost: %s: %v", e.Name, e.Reason, e.Cause)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// coarse rounds a duration for a text that people read.
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
