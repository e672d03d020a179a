package retry

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// ErrNoAnswer is the error of a call that the store did not answer.
var ErrNoAnswer = errors.New("no answer from the store")

// Certain reports whether it is certain that a failed call left nothing behind in the store.
func Certain(err error) bool {
	return errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrMismatch)
}

// Gone reports whether it is certain that the store has nothing of the claim. An earlier call
// without an answer may have removed the claim.
func Gone(err error) bool { return errors.Is(err, driver.ErrGone) }

// Final reports whether it is useless to make the failed call again.
func Final(err error) bool {
	return errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrMismatch) ||
		Gone(err) || errors.Is(err, errors.ErrUnsupported)
}

// Repairable reports whether an operator can repair what the store refused, so that the same
// call may succeed while the program runs. If err has another cause, too, for which it is
// useless to call again, Repairable returns false.
func Repairable(err error) bool {
	switch {
	case errors.Is(err, driver.ErrMismatch), errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrInvalid),
		errors.Is(err, errors.ErrUnsupported), Gone(err):
		return false
	}
	return errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrUnable)
}

// Ended reports whether a call failed because its context ended. That is no error of the
// store.
func Ended(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Unanswered returns the error for calls that had no answer while the caller waited. The
// parameter err is the error of the last call. If err is the error of a context, that context
// was the one that limited the call. In that case the result matches no error of a context,
// because the caller's own context has not ended.
func Unanswered(err error) error {
	if !Ended(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, bounded{err})
}

// bounded is err, except that it matches no error of a context.
type bounded struct{ err error }

// Error returns the text of the error.
func (b bounded) Error() string { return b.err.Error() }

// Is reports whether err matches `target`. It returns false if `target` is an error of a
// context.
func (b bounded) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(b.err, target) //nolint:errorlint // identity: which errors are hidden
}

// As finds `target` in err.
func (b bounded) As(target any) bool { return errors.As(b.err, target) }

// ToReport returns which of two errors to report: `before`, which may be nil, or err, which
// came after it. If err says only that a call had no answer in time, and there is an earlier
// error, it returns the earlier error, which says more. Otherwise it returns err.
func ToReport(before, err error) error {
	if before != nil && errors.Is(err, context.DeadlineExceeded) {
		return before
	}
	return err
}

// ReasonOf returns why a claim is gone. The parameter err must be an error for which Gone is
// true.
func ReasonOf(err error) driver.Reason {
	var gone *driver.GoneError
	if errors.As(err, &gone) {
		return gone.Reason
	}
	return driver.ReasonDeleted
}

// ContextError returns the error of a context that has ended. If the cause of the end is
// another error, the result also has the cause.
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err { //nolint:errorlint // identity: is there a separate cause at all
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
