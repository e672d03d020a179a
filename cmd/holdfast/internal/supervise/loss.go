package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
)

// lossOf returns err, the error of a lock that was lost, with a text that says each fact once.
// The text of package holdfast begins with "unlock", although the user may have unlocked nothing,
// and has the reason before a cause that says the same.
func lossOf(err error) error {
	lost, ok := errors.AsType[*holdfast.LostError](err)
	if !ok {
		return err
	}
	text := lost.Error()
	if lost.Cause != nil && (lost.Reason == driver.ReasonForced || lost.Reason == driver.ReasonDeleted) {
		text = fmt.Sprintf("lock %q lost: %v", lost.Name, lost.Cause)
	}
	return output.Plain(unsent.Reworded(err, text))
}

// noRenewal returns a text about a lock that was not renewed. The parameter `renewal` is the error
// of the last renewal, or nil if it is not known.
func noRenewal(name string, renewal error, left time.Duration) string {
	lost := fmt.Sprintf("counts as lost in %s", output.Coarse(left))
	_, answered := errors.AsType[*redishold.ReplyError](renewal)
	switch {
	case renewal == nil:
		return fmt.Sprintf("lock %q was not renewed in time and %s", name, lost)
	case answered || errors.Is(renewal, driver.ErrRefused):
		return fmt.Sprintf("the store does not renew the lock (%s): lock %q %s", why(renewal), name, lost)
	case errors.Is(renewal, context.DeadlineExceeded):
		return fmt.Sprintf("the store does not answer: lock %q %s", name, lost)
	}
	return fmt.Sprintf("the store does not answer (%s): lock %q %s", why(renewal), name, lost)
}

// why returns the text of an error of a store on one line.
func why(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer from the store"
	}
	return output.Clean(output.OneLine(output.Plain(err)))
}
