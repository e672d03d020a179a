package open

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// unreachable is the error of a store that could not be talked to.
func unreachable(kind Kind, where string, err error) error {
	return fmt.Errorf("%s at %s: %w", kind.Title(), where, unsent.Error(err))
}

// denied is the error of a store that does not let the user in.
func denied(kind Kind, where string, err error) error {
	return fmt.Errorf("%s at %s: %w: %w", kind.Title(), where, driver.ErrRefused, unsent.Error(err))
}

// NoTable reports that a database has no table for locks. What makes it is in the text.
func NoTable(err error) bool { return errors.Is(err, rows.ErrNoTable) }

// Unfit reports that a database has a table for locks that cannot keep them as it is.
func Unfit(err error) bool { return errors.As(err, new(*rows.UnfitError)) }
