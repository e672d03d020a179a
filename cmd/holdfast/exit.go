package main

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
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 64 // the command line makes no sense
	exitUnreachable = 69 // the store cannot be reached
	exitBusy        = 75 // somebody else holds the lock: try again later
	exitRefused     = 77 // the store refused: password or rights
	exitLost        = 79 // the lock was lost while the command ran
	exitOwnFailure  = 125
)

// exitError ends the program with a status, and with a message if err is set.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit ends the program with the status code and without a message, code 0 as
// well.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

func usageError(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// storeError gives an error of the store its status, unless it has one.
func storeError(err error) error {
	var own *exitError
	code := exitUnreachable
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, holdfast.ErrMismatch), errors.Is(err, holdfast.ErrDeadlock):
		code = exitOwnFailure
	case refused(err):
		code = exitRefused
	case errors.Is(err, driver.ErrRefused):
		code = exitUsage // before anything was sent: a name that the store cannot keep
	}
	return &exitError{code: code, err: err}
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
