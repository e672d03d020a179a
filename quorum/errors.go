package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// nodesError has the errors of the nodes that failed a call.
type nodesError struct {
	does   string // what failed: "no majority of 3 nodes for "stock:42""
	nodes  []string
	causes []error
	kinds  []error // at most one: an error of package driver that says what is certain about the claim at the quorum, or the error of a context
}

// Error names each node that failed.
func (e *nodesError) Error() string {
	var text strings.Builder
	text.WriteString("quorum: " + e.does)
	for i, name := range e.nodes {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&text, "%s%s: %v", separator, name, e.causes[i])
	}
	return text.String()
}

// Unwrap returns e.kinds, and the errors of the nodes as foreign errors.
func (e *nodesError) Unwrap() []error {
	errs := append([]error(nil), e.kinds...)
	for _, cause := range e.causes {
		errs = append(errs, foreign{cause})
	}
	return errs
}

func (e *nodesError) add(n *node, err error) {
	e.nodes = append(e.nodes, n.label)
	e.causes = append(e.causes, err)
}

// foreign is the error of one node. It does not match errors that say what is certain about the
// claim at that node, because they need not be true for the quorum. For example, a claim that
// is gone at one node is not lost at the quorum.
type foreign struct{ error }

// Is reports whether the error of the node matches `target`. It returns false if `target` is
// driver.ErrGone, driver.ErrNotExecuted or driver.ErrMismatch, or any kind of driver.ErrRefused.
func (f foreign) Is(target error) bool {
	switch target {
	case driver.ErrGone, driver.ErrNotExecuted, driver.ErrMismatch,
		driver.ErrRefused, driver.ErrDenied, driver.ErrUnable, driver.ErrInvalid:
		return false
	}
	return errors.Is(f.error, target)
}

// As does what errors.As does for the error of the node. It returns false if `target` is for a
// *driver.GoneError.
func (f foreign) As(target any) bool {
	if _, ok := target.(**driver.GoneError); ok {
		return false
	}
	return errors.As(f.error, target)
}

// errNoAnswer is the error of a node that did not answer in time.
var errNoAnswer = errors.New("no answer in time")

// notSent returns an error for a call that was not sent.
func notSent(err error) error {
	return fmt.Errorf("quorum: %w: %w", driver.ErrNotExecuted, err)
}

// over returns an error if ctx has ended before the call.
func over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return notSent(err)
	}
	return nil
}
