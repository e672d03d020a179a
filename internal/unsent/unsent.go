// Package unsent makes errors for calls that certainly did not reach a store.
package unsent

import (
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// Error returns an error with the cause, that is driver.ErrNotExecuted too. Its text is
// that of the cause; a connection that could not be made reads "cannot connect to
// HOST:PORT: connection refused", whatever client library said it.
func Error(cause error) error { return &unsent{cause} }

type unsent struct{ cause error }

// Error implements error.
func (e *unsent) Error() string {
	text := e.cause.Error()
	if to, why, ok := dialed(text); ok {
		return "cannot connect to " + to + ": " + why
	}
	return text
}

// dialed takes apart how package net describes a connection that could not be made: "dial
// tcp HOST:PORT: connect: reason". Client libraries put text around it, or pass on the
// text alone.
func dialed(text string) (to, reason string, ok bool) {
	for _, network := range []string{"dial tcp ", "dial unix "} {
		if _, rest, found := strings.Cut(text, network); found {
			rest, _, _ = strings.Cut(rest, "\n")
			rest, _, _ = strings.Cut(rest, "\"")
			to, reason, ok = strings.Cut(rest, ": ")
			return to, strings.TrimPrefix(reason, "connect: "), ok
		}
	}
	return "", "", false
}

// Unwrap returns the cause, and what it means for a claim.
func (e *unsent) Unwrap() []error { return []error{e.cause, driver.ErrNotExecuted} }
