package output

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// Statuses to exit with, beside the command's own. They follow sysexits(3),
// timeout(1) and the shells, so that wrappers already know them.
const (
	ExitOK          = 0   // the command did what it was asked to
	ExitFailure     = 1   // also: the answer is no
	ExitUsage       = 64  // the command line makes no sense
	ExitUnreachable = 69  // the store cannot be reached
	ExitBusy        = 75  // somebody else holds the lock: try again later
	ExitRefused     = 77  // the store refused: password or rights
	ExitLost        = 79  // the lock was lost while the command ran
	ExitOwnFailure  = 125 // of this program; or the store lacks what is asked for
)

// ExitError ends the program with a status, and with a message if Err is set.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause; nil without a message.
func (e *ExitError) Unwrap() error { return e.Err }

// Exit ends the program with the status code and without a message, code 0 as
// well.
func Exit(code int) error {
	if code == ExitOK {
		return nil
	}
	return &ExitError{Code: code}
}

// UsageError ends the program with the status of a command line that makes no sense.
func UsageError(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// StoreError gives an error of the store its status, unless it has one.
func StoreError(err error) error {
	var own *ExitError
	if errors.As(err, &own) {
		return err
	}
	return &ExitError{Code: StatusOf(err), Err: err}
}

// StatusOf returns the status for an error of the store. One error may have several
// causes, as where the store refused while a call waited: what trying again does not
// fix comes first, then that another holds the lock, then that nothing is known.
func StatusOf(err error) int {
	switch {
	case errors.Is(err, holdfast.ErrMismatch):
		return ExitUsage // the name is another kind of lock, or data
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, holdfast.ErrDeadlock):
		return ExitOwnFailure
	case refused(err):
		return ExitRefused
	case errors.Is(err, driver.ErrRefused):
		return ExitUsage // before anything was sent: a name that the store cannot keep
	case errors.Is(err, holdfast.ErrBusy):
		return ExitBusy
	}
	return ExitUnreachable
}

// refused reports whether the server said no, and will go on to.
func refused(err error) bool {
	var reply *redishold.ReplyError
	if !errors.As(err, &reply) {
		return false
	}
	for _, code := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid password"} {
		if strings.HasPrefix(reply.Text, code) {
			return true
		}
	}
	return errors.Is(err, driver.ErrRefused)
}
