package meter

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// AcquireOutcome says how an acquire ended. An error that is a context's counts
// as the caller's only if the caller's context is over: clients of a store wrap
// context errors of their own timeouts.
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

// RenewOutcomes returns what RenewOutcome may return.
func RenewOutcomes() []string { return []string{"ok", "late", "error", "not_owner"} }

// RenewOutcome says how a renewal was answered.
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

// HoldEnd says how a hold ended, of an EventRelease or an EventLoss.
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

// FoundLost says that a release is none: the lock was gone by then. An
// EventLoss follows, and is the one that counts.
func FoundLost(e holdfast.Event) bool {
	return e.Type == holdfast.EventRelease && errors.Is(e.Err, holdfast.ErrLost)
}

// Loss returns why a lock was lost. ok is false if the event is about something
// else, and of a lock that reached the end which Lease or AtMost had set: that
// is as its user wanted it.
func Loss(e holdfast.Event) (reason string, ok bool) {
	if e.Type != holdfast.EventLoss || HoldEnd(e) == "fixed_lease" {
		return "", false
	}
	return reasonLabel(e.Reason), true
}

// Reasons returns what Loss may return, but for "other".
func Reasons() []string {
	return []string{
		string(driver.ReasonClosed), string(driver.ReasonDeleted), string(driver.ReasonEvicted), string(driver.ReasonExpired),
		string(driver.ReasonForced), string(driver.ReasonNotOwner), string(driver.ReasonRefused), string(driver.ReasonUnreachable),
	}
}

// reasonLabel is the reason as a label. Stores written by others may have reasons
// of their own, which do not become labels.
func reasonLabel(r driver.Reason) string { return known(string(r), Reasons()) }

// CallOutcomes returns what CallOutcome may return.
func CallOutcomes() []string { return []string{"ok", "error"} }

// CallOutcome says whether the store answered a call. That it holds nothing of a
// claim is an answer.
func CallOutcome(err error) string {
	if err == nil || errors.Is(err, driver.ErrGone) {
		return "ok"
	}
	return "error"
}

// Ops returns what Op may return, but for "other".
func Ops() []string { return []string{holdfast.OpTry, holdfast.OpRenew, holdfast.OpRelease} }

// Op is what a call asks of the store, as a label.
func Op(op string) string { return known(op, Ops()) }

// IndeterminateOps returns the calls that leave a doubt when they are not answered: a
// renewal is repeated, and changes nothing that is not so already.
func IndeterminateOps() []string { return []string{holdfast.OpTry, holdfast.OpRelease} }

// Resolved says whether the end of a doubt is certain.
func Resolved(resolved bool) string {
	if resolved {
		return "yes"
	}
	return "no"
}

// WakeSources returns what WakeSource may return.
func WakeSources() []string { return []string{"notify", "poll"} }

// WakeSource says why a waiter asks again: the store said so, or it slept for
// long enough.
func WakeSource(notified bool) string {
	if notified {
		return "notify"
	}
	return "poll"
}

// known returns s if it is one of values. A later version, or a store, may have
// more than are known here, and a label must not.
func known(s string, values []string) string {
	if slices.Contains(values, s) {
		return s
	}
	return "other"
}
