// Package admintest tests that a store follows the rules of admin.Source.
//
// The test of a store is one call:
//
//	func TestAdmin(t *testing.T) {
//		admintest.Suite{Open: func(t *testing.T) admintest.Store { return openStore(t) }}.Run(t)
//	}
//
// The names of the subtests are the specification. If a store lacks a feature, the subtests of
// that feature are skipped with the reason. A store lacks a feature if its driver.Caps do not
// declare the feature, or if the method for that feature returns errors.ErrUnsupported.
//
// Every subtest uses its own names with random letters, so several runs of the suite at
// once are possible.
package admintest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

// Store is a store for the suite: a Source to test, and a Backend for locks to list.
type Store interface {
	driver.Backend
	admin.Source
}

// Suite is the suite of tests with its settings. Only Open is required.
type Suite struct {
	// Open returns the store to test. It is called once per subtest, with that
	// subtest's T, whose Cleanup may close what Open opened.
	Open func(t *testing.T) Store

	// Synctest runs each subtest in a bubble of testing/synctest with its fake clock. Use
	// it for stores in the process that do no I/O.
	Synctest bool

	// NoRemaining means that leases end, but the store does not report the remaining time of a
	// lease. Then Holder.Remaining must be RemainingUnknown.
	NoRemaining bool

	// BriefReasons means that the store keeps the reason of a forced unlock only until
	// the name is granted again. A holder that asks later is notified of its loss, but
	// without the reason.
	BriefReasons bool
}

// Run runs every check as a parallel subtest of t.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	for _, c := range checks() {
		conformance.Run(t, c.name, s.Synctest, s.Open, c.missing, func(t *testing.T, store Store) { s.check(c, t, store) })
	}
}

// check is one rule of the suite, with the test that a store follows the rule.
type check struct {
	name  string
	needs []capability
	body  func(*probe)
}

// checks returns the whole suite.
func checks() []check {
	needs := func(cs ...capability) []capability { return cs }
	counts := declared("Caps.Counts", func(c driver.Caps) bool { return c.Counts })
	keeps := declared("Caps.AtLeast", func(c driver.Caps) bool { return c.AtLeast })
	permits := declared("Caps.Permits", func(c driver.Caps) bool { return c.Permits })
	shared := declared("Caps.Shared", func(c driver.Caps) bool { return c.Shared })
	return []check{
		{"Get/ShowsTheHolder", needs(gets), getShowsTheHolder},
		{"Get/ShowsEveryReader", needs(gets, shared), getShowsEveryReader},
		{"Get/ShowsEveryPermit", needs(gets, permits), getShowsEveryPermit},
		{"Get/AnswersInOrder", needs(gets), getAnswersInOrder},
		{"Get/ShowsHoldCounts", needs(gets, counts), getShowsHoldCounts},
		{"Get/HonoursContext", needs(gets), getHonoursContext},
		{"List/ShowsEachNameOnce", needs(lists), listShowsEachNameOnce},
		{"List/SkipsStatesOnly", needs(lists), listSkipsStatesOnly},
		{"List/HonoursContext", needs(lists), listHonoursContext},
		{"Describe/ShowsTheRecord", needs(describes), describeShowsTheRecord},
		{"ForceUnlock/EndsTheHold", needs(gets, forces), forceUnlockEndsTheHold},
		{"ForceUnlock/OfChangedHoldIsGone", needs(gets, forces), forceUnlockOfChangedHoldIsGone},
		{"ForceUnlock/EndsThatHoldOnly", needs(gets, forces, shared), forceUnlockEndsThatHoldOnly},
		{"ForceUnlock/FreesWhatIsKept", needs(gets, forces, keeps), forceUnlockFreesWhatIsKept},
		{"ForceUnlock/IsRemembered", needs(gets, forces, explains), forceUnlockIsRemembered},
		{"Log/IsKept", needs(logs), logIsKept},
	}
}

// capability is a feature that not every store has. The function returns "" if the store has
// the feature, else the name of what the store lacks.
type capability func(context.Context, Store) string

func (c check) missing(s Store) string {
	for _, has := range c.needs {
		if missing := has(context.Background(), s); missing != "" {
			return missing
		}
	}
	return ""
}

// declared returns the capability for a field of driver.Caps.
func declared(name string, has func(driver.Caps) bool) capability {
	return func(_ context.Context, s Store) string {
		if has(s.Info().Caps) {
			return ""
		}
		return name
	}
}

// supported returns "" if err is not errors.ErrUnsupported. Else it returns `name`, the name of
// what the store lacks.
func supported(err error, name string) string {
	if errors.Is(err, errors.ErrUnsupported) {
		return name
	}
	return ""
}

func gets(ctx context.Context, s Store) string {
	_, err := s.Get(ctx, "admintest")
	return supported(err, "Get")
}

func lists(ctx context.Context, s Store) string {
	for _, err := range s.List(ctx, admin.Filter{NamePrefix: "admintest-none", Keys: 1}) {
		return supported(err, "List")
	}
	return ""
}

func describes(ctx context.Context, s Store) string {
	_, err := s.Describe(ctx, "admintest")
	return supported(err, "Describe")
}

func forces(ctx context.Context, s Store) string {
	h := admin.Holder{Owner: uuid.New() + ":1", Holds: 1, Remaining: time.Second}
	return supported(s.ForceUnlock(ctx, "admintest", h, "test"), "ForceUnlock")
}

func explains(ctx context.Context, s Store) string {
	_, err := s.ForceReasons(ctx, []admin.Ended{{Name: "admintest", Owner: uuid.New() + ":1"}})
	return supported(err, "ForceReasons")
}

func logs(ctx context.Context, s Store) string {
	return supported(s.AppendLog(ctx, admin.Client{}, nil), "event log")
}
