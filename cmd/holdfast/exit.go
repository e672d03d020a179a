package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

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
	if errors.As(err, &own) {
		return err
	}
	return &exitError{code: statusOf(err), err: err}
}

// statusOf returns the status for an error of the store. One error may have several
// causes, as where the store refused while a call waited: what trying again does not
// fix comes first, then that another holds the lock, then that nothing is known.
func statusOf(err error) int {
	switch {
	case errors.Is(err, holdfast.ErrMismatch):
		return exitUsage // the name is another kind of lock, or data
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, holdfast.ErrDeadlock):
		return exitOwnFailure
	case refused(err):
		return exitRefused
	case errors.Is(err, driver.ErrRefused):
		return exitUsage // before anything was sent: a name that the store cannot keep
	case errors.Is(err, holdfast.ErrBusy):
		return exitBusy
	}
	return exitUnreachable
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

// exitCode is a flag whose value the program exits with. A system keeps eight bits
// of that: 256 would be success. So Set checks it, and no command can forget to.
type exitCode struct {
	value *int
	least int
}

// addExitCode adds a flag for a status to exit with, from least to 255.
func addExitCode(f *pflag.FlagSet, value *int, name, short string, usual, least int, usage string) {
	*value = usual
	f.VarP(&exitCode{value, least}, name, short, usage)
}

// String implements pflag.Value.
func (e *exitCode) String() string {
	if e.value == nil {
		return ""
	}
	return strconv.Itoa(*e.value)
}

// Type implements pflag.Value.
func (e *exitCode) Type() string { return "int" }

// Set implements pflag.Value.
func (e *exitCode) Set(text string) error {
	code, err := strconv.ParseInt(text, 0, 16) // as of any flag that is a number
	if err != nil || int(code) < e.least || code > 255 {
		return fmt.Errorf("it is no exit status for this; use %d to 255", e.least)
	}
	*e.value = int(code)
	return nil
}
