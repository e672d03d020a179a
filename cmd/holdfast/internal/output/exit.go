package output

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// Exit statuses of the program. They follow sysexits(3), timeout(1) and the shells, so that
// wrappers already know them. If a command runs under a lock, the program can also end with
// the status of that command.
const (
	ExitOK          = 0   // the command did what it was asked to
	ExitFailure     = 1   // the command failed, or its answer is no
	ExitUsage       = 64  // what the user typed is not valid, or is not possible in this store
	ExitUnreachable = 69  // the store cannot be reached, or can grant no lock at present: it is full, read-only or without a majority
	ExitBusy        = 75  // another client holds the lock: try again later
	ExitRefused     = 77  // the store refuses: a password, a missing permission, a missing or unsuitable table, an old version
	ExitLost        = 79  // the lock was lost while the command ran
	ExitOwnFailure  = 125 // this program failed, or the store lacks a feature
)

// ExitError is an error that ends the program with a status, and with a message if Err is set.
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

// Unwrap returns Err, which is nil if there is no message.
func (e *ExitError) Unwrap() error { return e.Err }

// Exit returns an error that ends the program with a status and without a message. It returns
// nil for the status 0.
func Exit(code int) error {
	if code == ExitOK {
		return nil
	}
	return &ExitError{Code: code}
}

// UsageError returns an error that ends the program with the status of an invalid command line.
func UsageError(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// StoreError returns err with the exit status for an error of the store. If err has a status
// already, StoreError returns err as it is.
func StoreError(err error) error {
	if _, own := errors.AsType[*ExitError](err); own {
		return err
	}
	return &ExitError{Code: StatusOf(err), Err: Plain(err)}
}

// Plain returns err with a text for people in place of that of package net for a connection on
// which no answer came in time.
func Plain(err error) error {
	if !strings.Contains(err.Error(), "i/o timeout") {
		return err
	}
	noAnswer := regexp.MustCompile(`(?:(?:read|write) (?:tcp|unix) (?:\S+->)?(\S+): )?i/o timeout`)
	text := noAnswer.ReplaceAllStringFunc(err.Error(), func(found string) string {
		if server := noAnswer.FindStringSubmatch(found)[1]; server != "" {
			return "no answer of " + server + " in time"
		}
		return "no answer in time"
	})
	return unsent.Reworded(err, text)
}

// StatusOf returns the exit status for an error of the store. One error may have several
// causes, for example a refusal and a busy lock. Then the status is that of a cause that a
// repeated call does not fix. Without such a cause, ErrBusy decides. If the error is not
// ErrBusy, the status is ExitUnreachable.
func StatusOf(err error) int {
	switch {
	case errors.Is(err, holdfast.ErrMismatch): // the store has another kind of lock, or data, under the name
		return ExitUsage
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, holdfast.ErrDeadlock):
		return ExitOwnFailure
	case errors.Is(err, driver.ErrInvalid):
		return ExitUsage
	case errors.Is(err, driver.ErrUnable):
		return ExitUnreachable
	case errors.Is(err, driver.ErrRefused):
		return ExitRefused
	case errors.Is(err, holdfast.ErrBusy):
		return ExitBusy
	}
	return ExitUnreachable
}
