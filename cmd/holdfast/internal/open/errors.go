package open

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// unreachable returns the error of a store that could not be reached.
func unreachable(kind Kind, where string, err error) error {
	return fmt.Errorf("%s at %s: %w", kind.Title(), where, unsent.Error(err))
}

// denied returns the error of a store that refuses the user.
func denied(kind Kind, where string, err error) error {
	return fmt.Errorf("%s at %s: %w: %w", kind.Title(), where, driver.ErrRefused, unsent.Error(err))
}

// NoTable reports whether err says that a database has no table for locks. The text of err
// says how to create it.
func NoTable(err error) bool { return errors.Is(err, rows.ErrNoTable) }

// Unfit reports whether err says that a database has a table for locks that lacks something.
func Unfit(err error) bool { return errors.As(err, new(*rows.UnfitError)) }
