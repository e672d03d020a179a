package unsent

import (
	"fmt"
	"time"
)

// NoneFree says that a call got no connection from a pool of so many, of which so many
// were in use, and why it did not wait longer. Those that are in use include those that
// are being made or closed.
func NoneFree(size, used int, after time.Duration, cause error) error {
	what := "free in"
	if used < size {
		what = "that answers in"
	}
	return fmt.Errorf("no connection %s the pool of %d within %v (%d in use): %w", what, size, after.Round(time.Millisecond), used, cause)
}
