package main

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// need says what a command needs of a store: nil if the store has it. It is asked before
// anything is sent.
type need func(*open.Target) error

// lacks is the error of a store that does not have what is needed.
func lacks(t *open.Target, format string, args ...any) error {
	err := fmt.Errorf("%s %s: %w", t.Kind.Title(), fmt.Sprintf(format, args...), errors.ErrUnsupported)
	return &output.ExitError{Code: output.ExitOwnFailure, Err: err}
}

// needSizes is that of a command which changes how many may hold a semaphore.
func needSizes(t *open.Target) error {
	if t.Kind == open.Redis || t.Resizes() {
		return nil
	}
	return lacks(t, "cannot change how many permits a semaphore has")
}

// needs is what the lock that the flags describe needs.
func (o *lockOptions) needs(t *open.Target) error {
	if t.Kind == open.Redis {
		return nil // where it depends on the layout, the library says so
	}
	switch caps := t.Info().Caps; {
	case o.fair && !caps.Fair:
		return lacks(t, "has no fair locks (--fair)")
	case (o.shared || o.exclusive) && !caps.Shared:
		return lacks(t, "has no read-write locks (--shared, --exclusive)")
	case o.permits > 0 && !caps.Permits:
		return lacks(t, "has no semaphores (--permits)")
	}
	return nil
}
