package meter

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// AcquireOutcome returns how an acquire ended. An error of a context counts as "timeout" or
// "canceled" only if the caller's context has ended, because clients of a store return such
// errors for their own timeouts, too.
func AcquireOutcome(ctx context.Context, err error) string {
	switch over := ctx.Err(); {
	case err == nil:
		return "acquired"
	case errors.Is(err, holdfast.ErrBusy):
		return "busy"
	case over == nil || !errors.Is(err, over):
		return "error"
	case errors.Is(over, context.DeadlineExceeded):
		return "timeout"
	default:
		return "canceled"
	}
}

// RenewOutcome returns how a renewal ended.
func RenewOutcome(e holdfast.Event) string {
	switch {
	case e.Late:
		return "late"
	case e.Err == nil:
		return "ok"
	case errors.Is(e.Err, driver.ErrGone):
		return "not_owner"
	default:
		return "error"
	}
}

// HoldEnd returns how a hold ended: e must be an EventRelease or an EventLoss.
func HoldEnd(e holdfast.Event) string {
	switch {
	case e.Type == holdfast.EventRelease:
		return "released"
	case e.Leased && e.Reason == driver.ReasonExpired:
		return "fixed_lease"
	case e.Reason == driver.ReasonForced:
		return "forced"
	default:
		return "lost"
	}
}

// FoundLost reports whether e is the EventRelease of a lock that was lost before the release.
// Such an event does not count as a release. An EventLoss follows, which counts.
func FoundLost(e holdfast.Event) bool {
	return e.Type == holdfast.EventRelease && errors.Is(e.Err, holdfast.ErrLost)
}

// Loss returns why a lock was lost. `ok` is false if e is no loss. If a lock ends when its
// FixedLease or AtMost has passed, that is no loss either, because the user wanted it.
func Loss(e holdfast.Event) (reason string, ok bool) {
	if e.Type != holdfast.EventLoss || HoldEnd(e) == "fixed_lease" {
		return "", false
	}
	return known(string(e.Reason), reasons()), true // other stores may have reasons of their own
}

// CallOutcome returns "ok" if the store answered a call, "refused" if it refused the call, and
// "error" if there was no usable answer. The answer that a claim is gone is "ok", too.
func CallOutcome(err error) string {
	switch {
	case err == nil || errors.Is(err, driver.ErrGone):
		return "ok"
	case errors.Is(err, driver.ErrRefused):
		return "refused"
	}
	return "error"
}

// reasons returns all results of Loss, except "other".
func reasons() []string {
	return []string{
		string(driver.ReasonClosed), string(driver.ReasonDeleted), string(driver.ReasonEvicted), string(driver.ReasonExpired),
		string(driver.ReasonForced), string(driver.ReasonNotOwner), string(driver.ReasonRefused), string(driver.ReasonUnreachable),
	}
}

// operations returns the values of the label op, except "other".
func operations() []string {
	return []string{holdfast.OpTry, holdfast.OpRenew, holdfast.OpRelease}
}

// either returns `yes` if `is` is true, else `no`.
func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// known returns s if it is one of the given values, else "other". A store or a later version of
// Holdfast may have values that are not known here, but the number of values of a label must
// stay bounded.
func known(s string, values []string) string {
	if slices.Contains(values, s) {
		return s
	}
	return "other"
}
