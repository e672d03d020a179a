package rows

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// UnfitError says that a table exists and cannot keep locks as it is. The server has
// refused nothing: this program does not use the table.
type UnfitError struct{ text string }

// Unfit returns an UnfitError with a text.
func Unfit(format string, args ...any) error {
	return &UnfitError{fmt.Sprintf(format, args...)}
}

// Error returns the text.
func (e *UnfitError) Error() string { return e.text }

// Is makes it ErrRefused and ErrNotExecuted.
func (e *UnfitError) Is(target error) bool {
	return target == driver.ErrRefused || target == driver.ErrNotExecuted
}
