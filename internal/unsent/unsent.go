// Package unsent makes errors for calls that certainly did not reach a store, and gives errors of
// client libraries texts for users.
package unsent

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// Error returns an error that wraps the error `cause`, and that is driver.ErrNotExecuted too.
// Its text is that of `cause`. For a connection that could not be made, the text is "cannot
// connect to HOST:PORT: connection refused", whichever client library returned `cause`. If
// several hosts failed, the text has the reasons of all, on one line.
func Error(cause error) error { return &unsent{cause} }

type unsent struct{ cause error }

// Error implements error.
func (e *unsent) Error() string {
	reasons := attempts(e.cause.Error())
	for i, text := range reasons {
		if to, why, ok := dialed(text); ok {
			reasons[i] = "cannot connect to " + to + ": " + why
		}
	}
	return strings.Join(slices.Compact(reasons), "; ")
}

// attempts returns the lines of an error text of pgx: each line describes an attempt to
// connect. The headline above these lines is left out. If the text is no such text of pgx,
// attempts returns the whole text as one line.
func attempts(text string) []string {
	headline, lines, ok := strings.Cut(text, ":\n\t")
	if !ok || !strings.Contains(headline, "failed to connect to `") {
		return []string{text}
	}
	return strings.Split(lines, "\n\t")
}

// dialed returns the address and the reason in the text with which package net describes a
// connection that could not be made: "dial tcp HOST:PORT: connect: reason". Client
// libraries put text around it, or keep only the text.
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

// Unwrap returns the cause, and driver.ErrNotExecuted.
func (e *unsent) Unwrap() []error { return []error{e.cause, driver.ErrNotExecuted} }
