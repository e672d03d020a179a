package promhold

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// acquireOutcome says how an acquire ended. An error that is a context's counts
// as the caller's only if the caller's context is over: clients of a store wrap
// context errors of their own timeouts.
func acquireOutcome(ctx context.Context, err error) string {
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

// renewOutcome says how a renewal was answered.
func renewOutcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, driver.ErrGone):
		return "not_owner"
	default:
		return "error"
	}
}

// holdEnd says how a hold ended.
func holdEnd(e holdfast.Event) string {
	switch {
	case e.Kind == holdfast.EventRelease:
		return "released"
	case e.Reason == driver.Forced:
		return "forced"
	default:
		return "lost"
	}
}

// foundLost says that a release is none: the lock was gone by then. An
// EventLoss follows, and is the one that counts.
func foundLost(e holdfast.Event) bool {
	return e.Kind == holdfast.EventRelease && errors.Is(e.Err, holdfast.ErrLost)
}

// reasons are why a lock may be lost.
func reasons() []driver.Reason {
	return []driver.Reason{
		driver.Closed, driver.Deleted, driver.Evicted, driver.Expired,
		driver.Forced, driver.NotOwner, driver.Unreachable,
	}
}

// lossReason is the reason as a label. Stores written by others may have reasons
// of their own, which do not become labels.
func lossReason(r driver.Reason) string {
	if slices.Contains(reasons(), r) {
		return string(r)
	}
	return "other"
}

// acquireBounds, holdBounds and marginBounds are bounds of buckets in seconds.
// An acquire takes from a tenth of a millisecond to as long as somebody waits; a
// margin lies between nothing and two thirds of a TTL, which is 30 s by default.
func acquireBounds() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
}

func holdBounds() []float64 {
	return []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
}

func marginBounds() []float64 {
	return []float64{.01, .05, .1, .25, .5, 1, 2, 3, 5, 7.5, 10, 12.5, 15, 17.5, 20, 30, 60}
}

// version returns the version of Holdfast in this program, as Go recorded it.
func version() string {
	const module = "github.com/holdfast-go/holdfast"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	if info.Main.Path == module || strings.HasPrefix(info.Main.Path, module+"/") {
		return info.Main.Version
	}
	return "unknown"
}
