package unsent

import (
	"fmt"
	"time"
)

// NoneFree returns the error of a call that got no connection from a pool of `size`
// connections, of which `used` were in use. The call waited for the time `after`. The parameter
// `cause` is the reason why the call did not wait longer. Connections that are being made or
// closed count as used.
func NoneFree(size, used int, after time.Duration, cause error) error {
	what := "free in"
	if used < size {
		what = "that answers in"
	}
	return fmt.Errorf("no connection %s the pool of %d within %v (%d in use): %w", what, size, after.Round(time.Millisecond), used, cause)
}
