package retry

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// ErrNoAnswer says that a store left a call without an answer.
var ErrNoAnswer = errors.New("no answer from the store")

// Certain says that a failed call left nothing behind in the store.
func Certain(err error) bool {
	return errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrMismatch)
}

// Gone says that the store holds nothing of the claim, for certain. After a call
// without an answer that may be the work of that call.
func Gone(err error) bool { return errors.Is(err, driver.ErrGone) }

// Final says that calling again is useless.
func Final(err error) bool {
	return errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrMismatch) ||
		Gone(err) || errors.Is(err, errors.ErrUnsupported)
}

// Ended says that a call failed because its context ended, which says nothing of the
// store.
func Ended(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Unanswered returns the error of calls that had no answer in the time of the caller, the
// last of them with err. Where err is that of a context, it is of one that bounded the
// call: the caller's own has not ended, so the error does not say so.
func Unanswered(err error) error {
	if !Ended(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, bounded{err})
}

// bounded is an error with all that it is, but for the error of a context.
type bounded struct{ err error }

// Error returns the text of the error.
func (b bounded) Error() string { return b.err.Error() }

// Is reports what the error is.
func (b bounded) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(b.err, target) //nolint:errorlint // identity: which errors are hidden
}

// As finds what the error contains.
func (b bounded) As(target any) bool { return errors.As(b.err, target) }

// ToReport returns which of two failures, one after the other, to report: that a call
// had no answer in time says less than what the store said before. before may be nil.
func ToReport(before, err error) error {
	if before != nil && errors.Is(err, context.DeadlineExceeded) {
		return before
	}
	return err
}

// ReasonOf returns why a claim is gone, from an error that is Gone.
func ReasonOf(err error) driver.Reason {
	var gone *driver.GoneError
	if errors.As(err, &gone) {
		return gone.Reason
	}
	return driver.ReasonDeleted
}

// ContextError returns the error of a context that has ended, with its cause where
// that says more.
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err { //nolint:errorlint // identity: is there a separate cause at all
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
