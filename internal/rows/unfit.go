package rows

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// UnfitError says that a table exists, and that this program does not use it, because the
// table cannot keep locks as it is. The server itself has refused nothing.
type UnfitError struct{ text string }

// Unfit returns an UnfitError whose text fmt.Sprintf makes from format and args.
func Unfit(format string, args ...any) error {
	return &UnfitError{fmt.Sprintf(format, args...)}
}

// Error returns the text.
func (e *UnfitError) Error() string { return e.text }

// Is makes the error match driver.ErrRefused and driver.ErrNotExecuted in errors.Is.
func (e *UnfitError) Is(target error) bool {
	return target == driver.ErrRefused || target == driver.ErrNotExecuted
}
