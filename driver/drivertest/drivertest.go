// Package drivertest proves that a store keeps the rules of package driver.
//
// The test of an adapter is one call:
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, func(t *testing.T) driver.Backend { return openStore(t) })
//	}
//
// The names of the subtests are the specification. A subtest is skipped, with a
// line that says why, where the store does not declare what it is about.
//
// The suite shows what a Backend alone can show, in one process and without
// faults. Lost replies, cut connections, killed processes and fail-over need the
// store's own tests.
//
// A store must be able to run the suite several times at once: every subtest
// uses names of its own, and all but a one-byte name carry random letters.
package drivertest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Suite is the conformance suite with its settings. Only Open is needed.
type Suite struct {
	// Open returns the store to test. It is called once per subtest, with that
	// subtest's T, whose Cleanup may close what Open opened.
	Open func(t *testing.T) driver.Backend

	// TTL is the lease of the tests that let one end. They take about eight of
	// it in all, and a pause of the test process of half of it may fail them.
	// 0 means 500 ms, or the store's MinTTL if that is longer.
	TTL time.Duration

	// Synctest runs each subtest in a bubble of testing/synctest, on its fake
	// clock. It is for stores that live in the process and do no I/O.
	Synctest bool
}

// Run runs the suite with its default settings on the stores that open returns.
func Run(t *testing.T, open func(t *testing.T) driver.Backend) {
	t.Helper()
	Suite{Open: open}.Run(t)
}

// Run runs every check as a parallel subtest of t.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var missing string
			if s.Synctest {
				synctest.Test(t, func(t *testing.T) { missing = s.run(t, c) })
			} else {
				missing = s.run(t, c)
			}
			if missing != "" { // not said in the bubble, where a skip would show as a pass
				t.Skipf("the store has no %s", missing)
			}
		})
	}
}

// run makes c on a fresh store, or returns what the store lacks for it.
func (s Suite) run(t *testing.T, c check) (missing string) {
	b := s.Open(t)
	if missing = c.missing(b); missing == "" {
		c.run(t, b, s.TTL)
	}
	return missing
}

// check is one rule and how to find out whether a store keeps it.
type check struct {
	name  string
	needs []capability
	body  func(*probe)
}

// checks returns the whole suite.
func checks() []check {
	return []check{
		{"TryIsIdempotentByOwner", nil, tryIsIdempotentByOwner},
		{"ExcludesOthers", nil, excludesOthers},
		{"ExcludesUnderContention", nil, excludesUnderContention},
		{"TokensRise", needs(fencing), tokensRise},
		{"NamesAreInjective", nil, namesAreInjective},

		{"RenewExtendsBeyondTTL", nil, renewExtendsBeyondTTL},
		{"RenewTouchesOwnClaimOnly", nil, renewTouchesOwnClaimOnly},
		{"RenewNeverRevives", nil, renewNeverRevives},
		{"RenewAnswersEachClaim", nil, renewAnswersEachClaim},

		{"ReleaseFreesForOthers", nil, releaseFreesForOthers},
		{"ReleaseTwiceIsGone", nil, releaseTwiceIsGone},
		{"ReleaseOfNeverTriedIsGone", nil, releaseOfNeverTriedIsGone},
		{"ReleaseByStrangerChangesNothing", nil, releaseByStrangerChangesNothing},
		{"UnsettledReleaseRefusesLateTry", nil, unsettledReleaseRefusesLateTry},

		{"ExpiresAlone", needs(expiry), expiresAlone},
		{"ValidForIsALowerBound", needs(expiry), validForIsALowerBound},

		{"WaitReturnsOnRelease", needs(wakes), waitReturnsOnRelease},
		{"WaitMissesNothing", needs(wakes), waitMissesNothing},
		{"WaitDoesNotSpin", needs(wakes), waitDoesNotSpin},

		{"TryHonoursContext", nil, tryHonoursContext},
		{"RenewHonoursContext", nil, renewHonoursContext},
		{"ReleaseHonoursContext", nil, releaseHonoursContext},
		{"WaitHonoursContext", nil, waitHonoursContext},

		{"InspectShowsTheHolder", needs(inspector), inspectShowsTheHolder},
		{"HoldsAreRecorded", needs(inspector, counts), holdsAreRecorded},
		{"BreakEndsTheGrant", needs(inspector, breaker), breakEndsTheGrant},
		{"BreakOfChangedHolderIsGone", needs(inspector, breaker), breakOfChangedHolderIsGone},
	}
}

// capability is something that not every store has. It returns the name of what
// b lacks, or "".
type capability func(b driver.Backend) string

func needs(cs ...capability) []capability { return cs }

func (c check) missing(b driver.Backend) string {
	for _, has := range c.needs {
		if missing := has(b); missing != "" {
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

func fencing(b driver.Backend) string { return declared(b.Info().Caps.Fencing, "Caps.Fencing") }
func wakes(b driver.Backend) string   { return declared(b.Info().Caps.Wakes, "Caps.Wakes") }
func expiry(b driver.Backend) string {
	return declared(b.Info().Caps.ExpiresAlone, "Caps.ExpiresAlone")
}
func counts(b driver.Backend) string { return declared(b.Info().Caps.Counts, "Caps.Counts") }

func inspector(b driver.Backend) string {
	_, ok := b.(driver.Inspector)
	return declared(ok, "driver.Inspector")
}

func breaker(b driver.Backend) string {
	_, ok := b.(driver.Breaker)
	return declared(ok, "driver.Breaker")
}
