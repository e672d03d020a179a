package store

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Need says what a command needs of a store: nil if the store has it. It is asked before
// anything is sent.
type Need func(*open.Target) error

// Lacks is the error of a store that does not have what is needed.
func Lacks(t *open.Target, format string, args ...any) error {
	err := fmt.Errorf("%s %s: %w", t.Kind.Title(), fmt.Sprintf(format, args...), errors.ErrUnsupported)
	return &output.ExitError{Code: output.ExitOwnFailure, Err: err}
}
