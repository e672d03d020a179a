// Package admintest tests that a store follows the rules of admin.Source.
//
// The test of a store is one call:
//
//	func TestAdmin(t *testing.T) {
//		admintest.Suite{Open: func(t *testing.T) admintest.Store { return openStore(t) }}.Run(t)
//	}
//
// The names of the subtests are the specification. If a store lacks a feature, its
// subtests are skipped with the reason: if driver.Caps does not declare it, or a method
// returns errors.ErrUnsupported.
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

	// NoRemaining means that the store does not report the rest of a lease, although
	// leases end: Holder.Remaining is RemainingUnknown.
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
		conformance.Run(t, c.name, s.Synctest, func(t *testing.T) string { return s.run(t, c) })
	}
}

// run runs c on a new store. If the store lacks a feature that c needs, run returns the name
// of that feature and does not run c.
func (s Suite) run(t *testing.T, c check) (missing string) {
	store := s.Open(t)
	if missing = c.missing(t.Context(), store); missing == "" {
		c.run(t, store, s)
	}
	return missing
}

// check is one rule, and the test whether a store follows it.
type check struct {
	name  string
	needs []capability
	body  func(*probe)
}

// checks returns the whole suite.
func checks() []check {
	needs := func(cs ...capability) []capability { return cs }
	return []check{
		{"Get/ShowsTheHolder", needs(gets), getShowsTheHolder},
		{"Get/ShowsEveryReader", needs(gets, shared), getShowsEveryReader},
		{"Get/ShowsEveryPermit", needs(gets, permits), getShowsEveryPermit},
		{"Get/AnswersInOrder", needs(gets), getAnswersInOrder},
		{"Get/ShowsHoldCounts", needs(gets, counts), getShowsHoldCounts},
		{"Get/HonoursContext", needs(gets), getHonoursContext},
		{"List/ShowsEachNameOnce", needs(lists), listShowsEachNameOnce},
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

// capability is a feature that not every store has. It returns the name of what the store
// lacks, or "".
type capability func(context.Context, Store) string

func (c check) missing(ctx context.Context, s Store) string {
	for _, has := range c.needs {
		if missing := has(ctx, s); missing != "" {
			return missing
		}
	}
	return ""
}

func declared(has bool, name string) string {
	if has {
		return ""
	}
	return name
}

func shared(_ context.Context, s Store) string {
	return declared(s.Info().Caps.Shared, "Caps.Shared")
}

func permits(_ context.Context, s Store) string {
	return declared(s.Info().Caps.Permits, "Caps.Permits")
}

func counts(_ context.Context, s Store) string {
	return declared(s.Info().Caps.Counts, "Caps.Counts")
}

func keeps(_ context.Context, s Store) string {
	return declared(s.Info().Caps.AtLeast, "Caps.AtLeast")
}

// supported returns name if err is errors.ErrUnsupported, and "" otherwise.
func supported(err error, name string) string {
	return declared(!errors.Is(err, errors.ErrUnsupported), name)
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
