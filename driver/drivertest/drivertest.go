// Package drivertest tests that a store follows the rules of package driver.
//
// The test of an adapter is one call:
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, func(t *testing.T) driver.Backend { return openStore(t) })
//	}
//
// The names of the subtests are the specification. If a store does not declare a feature, the
// subtests of that feature are skipped with the reason.
//
// The suite tests a Backend in one process, without faults. The store must have its own tests
// for lost replies, cut connections, killed processes and failovers.
//
// A store must allow several runs of the suite at once. Every subtest of every run uses its own
// names. All names have random letters, except names of one byte.
package drivertest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
)

// Suite is the conformance suite with its settings. Only Open is required.
type Suite struct {
	// Open returns the store to test. It is called once per subtest, with that subtest's T,
	// whose Cleanup may close what Open opened. For a store with Info.SessionTTL, Open is
	// called again for each client whose session must end. Then it must return a store with
	// another session and the same locks.
	Open func(t *testing.T) driver.Backend

	// TTL is the lease in the tests that wait for the end of a lease. All these tests together
	// take as long as about forty leases. If the test process stands still for half a lease,
	// these tests may fail. 0 means 500 ms, or MinTTL of the store if that is longer. For a
	// store with Info.SessionTTL, the TTL is always Info.SessionTTL.
	TTL time.Duration

	// Presence is how long a fair claim may delay others after its last try. 0 means
	// Info.PlaceTTL, or 6 s if Info.PlaceTTL is 0.
	Presence time.Duration

	// Synctest runs each subtest in a bubble of testing/synctest with its fake clock. Use
	// it for stores in the process that do no I/O.
	Synctest bool
}

// Run runs the suite with its default settings on the stores that the function `open` returns.
func Run(t *testing.T, open func(t *testing.T) driver.Backend) {
	t.Helper()
	Suite{Open: open}.Run(t)
}

// Run runs every check as a parallel subtest of t.
func (s Suite) Run(t *testing.T) {
	t.Helper()
	for _, c := range checks() {
		conformance.Run(t, c.name, s.Synctest, s.Open, c.missing, func(t *testing.T, b driver.Backend) {
			s.check(c, t, b, func() driver.Backend { return s.Open(t) })
		})
	}
}

// check is one rule of the suite, with the test that a store follows the rule.
type check struct {
	name  string
	needs []string // capabilities
	body  func(*probe)
}

// checks returns the whole suite.
func checks() []check {
	var all []check
	for _, some := range [][]check{mutexChecks(), mutexLikeChecks(), sharedChecks(), permitChecks(), fairChecks(), atLeastChecks(), batchChecks(), latchChecks()} {
		all = append(all, some...)
	}
	return all
}

// mutexChecks returns the checks for every store.
func mutexChecks() []check {
	return []check{
		{"TryIsIdempotentByOwner", nil, tryIsIdempotentByOwner},
		{"OwnersTellClaimsApart", nil, ownersTellClaimsApart},
		{"ExcludesOthers", nil, excludesOthers},
		{"ExcludesUnderContention", nil, excludesUnderContention},
		{"TokensRise", needs(fencing), tokensRise},
		{"NamesAreInjective", nil, namesAreInjective},

		{"RenewExtendsBeyondTTL", nil, renewExtendsBeyondTTL},
		{"RenewLastsForItsOwnTTL", needs(expiry), renewLastsForItsOwnTTL},
		{"RenewTouchesOwnClaimOnly", nil, renewTouchesOwnClaimOnly},
		{"RenewNeverRevives", nil, renewNeverRevives},
		{"RenewAnswersEachClaim", nil, renewAnswersEachClaim},

		{"ReleaseFreesForOthers", nil, releaseFreesForOthers},
		{"ReleaseTwiceIsGone", nil, releaseTwiceIsGone},
		{"ReleaseOfNeverTriedIsGone", nil, releaseOfNeverTriedIsGone},
		{"ReleaseByStrangerChangesNothing", nil, releaseByStrangerChangesNothing},
		{"IndeterminateReleaseRefusesLateTry", needs(tombstones), indeterminateReleaseRefusesLateTry},

		{"ExpiresAlone", needs(expiry), expiresAlone},
		{"ValidForIsALowerBound", needs(expiry), validForIsALowerBound},

		{"WaitReturnsOnRelease", needs(wakes), waitReturnsOnRelease},
		{"WaitMissesNothing", needs(wakes), waitMissesNothing},
		{"WaitDoesNotSpin", needs(wakes), waitDoesNotSpin},
		{"WaitGrantsWhatIsHeld", needs(wakes), waitGrantsWhatIsHeld},
		{"WaitIsWokenAfterLong", needs(wakes, rechecks), waitIsWokenAfterLong},

		{"NotifiesOfForce", needs(notifier, forcible), notifiesOfForce},
		{"NotifyHonoursContext", needs(notifier), notifyHonoursContext},

		{"TryHonoursContext", nil, tryHonoursContext},
		{"RenewHonoursContext", nil, renewHonoursContext},
		{"ReleaseHonoursContext", nil, releaseHonoursContext},
		{"WaitHonoursContext", nil, waitHonoursContext},
	}
}

// mutexLikeChecks returns the checks of a mutex once more for each other kind of lock that only
// one claim can hold.
func mutexLikeChecks() []check {
	kinds := []struct {
		name  string
		has   string
		shape func(*driver.Claim)
	}{
		{"Writer", shared, func(c *driver.Claim) { c.ReadWrite = true }},
		{"OnePermit", permits, func(c *driver.Claim) { c.Mode, c.Permits = driver.Permit, 1 }},
		{"Fair", fair, func(c *driver.Claim) { c.Fair = true }},
	}
	var all []check
	for _, k := range kinds {
		for _, c := range mutexChecks() {
			if c.name == "NamesAreInjective" { // it does not depend on the kind of lock
				continue
			}
			all = append(all, check{k.name + "/" + c.name, append(needs(k.has), c.needs...), func(p *probe) {
				p.Shape = k.shape
				c.body(p)
			}})
		}
	}
	return all
}

func sharedChecks() []check {
	return []check{
		{"Shared/ReadersOverlap", needs(shared), readersOverlap},
		{"Shared/WriterExcludesReaders", needs(shared), writerExcludesReaders},
		{"Shared/ReadersExcludeWriters", needs(shared), readersExcludeWriters},
		{"Shared/ReadersExpireOneByOne", needs(shared, expiry), readersExpireOneByOne},
		{"Shared/ReaderIsGrantedBesideItsWriter", needs(shared), readerIsGrantedBesideItsWriter},
		{"Shared/WriterOutlivesReaderBesideIt", needs(shared), writerOutlivesReaderBesideIt},
		{"Shared/WriterReleaseWakesReaders", needs(shared, wakes), writerReleaseWakesReaders},
		{"Shared/DowngradeWakesReaders", needs(shared, wakes), downgradeWakesReaders},
		{"Shared/LastReaderWakesWriter", needs(shared, wakes), lastReaderWakesWriter},
		{"Shared/ReadersAndWritersUnderContention", needs(shared), readersAndWritersUnderContention},
		{"KindsDoNotMix", needs(severalKinds), kindsDoNotMix},
	}
}

func permitChecks() []check {
	return []check{
		{"Permits/PermitsAreLimited", needs(permits), permitsAreLimited},
		{"Permits/TokensRise", needs(permits, fencing), permitTokensRise},
		{"Permits/TryTakesOnePermit", needs(permits), permitTryTakesOnePermit},
		{"Permits/PermitComesBackOnce", needs(permits), permitComesBackOnce},
		{"Permits/PermitsOfANameAreSetOnce", needs(permits), permitsOfANameAreSetOnce},
		{"Permits/ExpiresAlone", needs(permits, expiry), permitExpiresAlone},
		{"Permits/UnderContention", needs(permits), permitsUnderContention},
		{"Permits/ReleaseWakes", needs(permits, wakes), permitReleaseWakes},
		{"Permits/PermitsAreCounted", needs(permits, resizer), permitsAreCounted},
		{"Permits/ResizeUpAdmitsMore", needs(permits, resizer), resizeUpAdmitsMore},
		{"Permits/ResizeDownGivesNoneOut", needs(permits, resizer), resizeDownGivesNoneOut},
		{"Permits/ResizeMakesTheSemaphore", needs(permits, resizer), resizeMakesTheSemaphore},
	}
}

func fairChecks() []check {
	return []check{
		{"Fair/GrantsInOrderOfArrival", needs(fair), fairGrantsInOrderOfArrival},
		{"Fair/TryKeepsOnePlace", needs(fair), fairTryKeepsOnePlace},
		{"Fair/RefusesToOvertake", needs(fair), fairRefusesToOvertake},
		{"Fair/QueuesWhoWaits", needs(fair), fairQueuesWhoWaits},
		{"Fair/GiveUpLeavesTheQueue", needs(fair), fairGiveUpLeavesTheQueue},
		{"Fair/RenewKeepsThePlace", needs(fair, sessions), fairRenewKeepsThePlace},
		{"Fair/GoneWaiterDoesNotBlock", needs(fair), fairGoneWaiterDoesNotBlock},
		{"Fair/HolderExpiresAlone", needs(fair, expiry), fairHolderExpiresAlone},
		{"Fair/WakesTheFirst", needs(fair, wakes), fairWakesTheFirst},
	}
}

// atLeastChecks returns the checks of Claim.AtLeast.
func atLeastChecks() []check {
	return []check{
		{"AtLeast/ReleaseLeavesTheNameTaken", needs(atLeast), releaseLeavesTheNameTaken},
		{"AtLeast/ReleaseAllLeavesTheNameTaken", needs(atLeast, batcher), releaseAllLeavesTheNameTaken},
		{"AtLeast/OutlastsTheLease", needs(atLeast, expiry), atLeastOutlastsTheLease},
		{"AtLeast/CrashFreesAfterTTL", needs(atLeast, expiry), crashFreesAfterTTL},
		{"AtLeast/ReleaseWithoutItFreesAtOnce", needs(atLeast), releaseWithoutAtLeastFrees},
		{"AtLeast/ReleaseWakes", needs(atLeast, wakes), atLeastReleaseWakes},
	}
}

func batchChecks() []check {
	return []check{
		{"TryAll/AnswersAsTry", needs(batcher), tryAllAnswersAsTry},
		{"TryAll/IsIdempotent", needs(batcher), tryAllIsIdempotent},
		{"TryAll/FailsOneByOne", needs(batcher, shared), tryAllFailsOneByOne},
		{"TryAll/HonoursContext", needs(batcher), tryAllHonoursContext},
		{"ReleaseAll/AnswersAsRelease", needs(batcher), releaseAllAnswersAsRelease},
		{"ReleaseAll/IsIdempotent", needs(batcher), releaseAllIsIdempotent},
		{"ReleaseAll/FailsOneByOne", needs(batcher, shared), releaseAllFailsOneByOne},
		{"ReleaseAll/WakesWaiters", needs(batcher, wakes), releaseAllWakesWaiters},
		{"ReleaseAll/HonoursContext", needs(batcher), releaseAllHonoursContext},
		{"Batches/OfManyNames", needs(batcher), batchesOfManyNames},
		{"Batches/OfMixedKinds", needs(batcher, shared, fair), batchesOfMixedKinds},
	}
}

func latchChecks() []check {
	return []check{
		{"Latch/IsSetOnce", needs(latcher), latchIsSetOnce},
		{"Latch/CountsEachCallOnce", needs(latcher), latchCountsEachCallOnce},
		{"Latch/StaysOpen", needs(latcher), latchStaysOpen},
		{"Latch/CanBeSetAfterItOpened", needs(latcher), latchCanBeSetAfterItOpened},
		{"Latch/IsNoLock", needs(latcher), latchIsNoLock},
		{"Latch/WakesWhenItOpens", needs(latcher, wakes), latchWakesWhenItOpens},
		{"Latch/WaiterMissesNothing", needs(latcher, wakes), latchWaiterMissesNothing},
		{"Latch/WaiterDoesNotSpin", needs(latcher, wakes), latchWaiterDoesNotSpin},
		{"Latch/HonoursContext", needs(latcher, wakes), latchHonoursContext},
	}
}

func needs(capabilities ...string) []string { return capabilities }

// missing returns the first capability that c needs and b lacks, or "" if b lacks none of them.
func (c check) missing(b driver.Backend) string {
	has := capabilities(b)
	for _, need := range c.needs {
		if !has[need] {
			return need
		}
	}
	return ""
}

// The capabilities are features that not every store has. If a test is skipped, its message has
// the name of the missing capability.
const (
	atLeast      = "Caps.AtLeast"
	batcher      = "driver.Batcher"
	expiry       = "Caps.ExpiresAlone"
	fair         = "Caps.Fair"
	fencing      = "Caps.Fencing"
	forcible     = "admin.Source" // to test Notify, a check ends a hold with ForceUnlock
	latcher      = "Caps.Latches and driver.Latcher"
	notifier     = "driver.Notifier"
	permits      = "Caps.Permits"
	rechecks     = "Info.Recheck"
	resizer      = "driver.Resizer"
	sessions     = "Info.SessionTTL"
	severalKinds = "Caps.Shared and no Caps.Permits"
	shared       = "Caps.Shared"
	tombstones   = "Caps.Tombstones"
	wakes        = "Caps.Wakes"
)

// capabilities returns which capabilities b has.
func capabilities(b driver.Backend) map[string]bool {
	info := b.Info()
	caps := info.Caps
	_, batches := b.(driver.Batcher)
	_, forces := b.(admin.Source)
	_, latches := b.(driver.Latcher)
	_, notifies := b.(driver.Notifier)
	_, resizes := b.(driver.Resizer)
	return map[string]bool{
		atLeast:      caps.AtLeast,
		batcher:      batches,
		expiry:       caps.ExpiresAlone,
		fair:         caps.Fair,
		fencing:      caps.Fencing,
		forcible:     forces,
		latcher:      latches && caps.Latches,
		notifier:     notifies,
		permits:      caps.Permits,
		rechecks:     info.Recheck > 0,
		resizer:      resizes,
		sessions:     info.SessionTTL > 0,
		severalKinds: caps.Shared || caps.Permits,
		shared:       caps.Shared,
		tombstones:   caps.Tombstones,
		wakes:        caps.Wakes,
	}
}
