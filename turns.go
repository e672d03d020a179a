package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// turns decides which goroutine and which process gets a lock next, as far as this process can
// decide that. It is one queue's record of the turns so far. Its methods get the time and what the
// store has answered, and return what to do. docs/internals.md explains the rules.
type turns struct {
	handoffs int   // how often the next lease may be passed on
	yield    yield // the yield that the next head owes to other clients; zero after a head has taken it

	// others is how many other clients received the notification of the last release by this
	// process. They may be waiting for the name. The field is the constant `unknown` if the
	// store did not report a number.
	others int

	// yieldAt is the earliest time of the next yield, if it is unknown whether other clients
	// wait. unusedYields counts the yields in a row that no other client used: the more there
	// were, the later is the next yield.
	yieldAt      clock.Instant
	unusedYields int

	// Until burstUntil the goroutines of this process take the name one after the other, with
	// quiet releases. After such a release owesWake is true, because other clients have to be
	// notified later. The next head takes over that duty.
	burstUntil clock.Instant
	owesWake   bool
}

// newTurns returns the turns of a queue that begins.
func newTurns() turns { return turns{handoffs: handoffFirst, others: unknown} }

// handoffFirst is the size of the first block: how often a lock may be passed on before
// anything is known about the queue.
const handoffFirst = 64

// blockSize returns for how many hand-offs to reserve tokens. The parameters say how many
// tokens of the last block were used by hand-offs, and how many are left. Tokens come from the
// server's clock in microseconds. A hand-off takes longer than a microsecond, so the tokens of
// hand-offs cannot put the counter ahead of the clock. Unused tokens can. So a block doubles
// only if no token is left.
func (o Handoff) blockSize(used, left int32) int {
	want := int(used)
	if left == 0 {
		want *= 2
	}
	return min(max(want, handoffFirst), o.Max)
}

// After a release, this process yields: it waits for a moment before it asks for the name
// again, so that other clients that wait can get the lock first.
const (
	// How long a yield lasts: yieldTrips times as long as the release took. It is at least
	// yieldEach for each client that waits, or yieldLeast if their number is unknown, and at
	// most yieldMost.
	yieldTrips = 3
	yieldLeast = 200 * time.Microsecond
	yieldEach  = time.Millisecond
	yieldMost  = 5 * time.Millisecond

	// burstFor is how long the goroutines of this process go first after a grant, if a wait or
	// a yield came before that grant. Without such a burst, each turn would go to another
	// process, with a notification of all waiters and tries in vain.
	burstFor = 5 * time.Millisecond

	// unusedYieldsMost bounds turns.unusedYields. The distance between two yields
	// doubles with each yield that no client used, and so is at most eight times Handoff.For.
	unusedYieldsMost = 3

	// handoffForMost bounds what planYield takes for Handoff.For, so that the time does not overflow.
	handoffForMost = time.Hour

	// unknown is the number of other clients that wait, if the store did not count them.
	unknown = -1
)

// yield is the time for which other clients go first.
type yield struct {
	until      clock.Instant // its end; 0 if this process need not yield
	othersWait bool          // the store reported that other clients wait
}

// seenGrant is a grant of the store to this process, as planYield sees it.
type seenGrant struct {
	began      clock.Instant // when the hold began
	handoffFor time.Duration // Handoff.For
	metOther   bool          // another client had the lock when this process asked
	yielded    bool          // this process yielded before it asked
	passes     bool          // the lease may be passed on
}

// planYield sets when this process yields next, and whether a burst begins, after a grant. If
// this process yielded before the grant, and no other client had the lock, no client used that
// yield.
//
// A lease that may be passed on begins no burst. In a burst the store is asked for each grant. It
// is faster if another process takes the lock, and passes it on among its goroutines. That is also
// so if the store has reserved no tokens for hand-offs, because no goroutine waited.
func (s *turns) planYield(g seenGrant) {
	switch {
	case g.metOther:
		s.unusedYields = 0
	case g.yielded:
		s.unusedYields = min(s.unusedYields+1, unusedYieldsMost)
	case s.yieldAt != 0: // neither, and this grant is not the first: the plan stays
		return
	}
	s.yieldAt = g.began + min(g.handoffFor, handoffForMost)<<s.unusedYields
	othersHadChance := g.metOther || g.yielded
	if othersHadChance && !g.passes {
		s.burstUntil = g.began + burstFor
	}
}

// takeWake reports whether other clients must be notified now, because the last release was quiet
// and no goroutine of this process will take the name. The caller then has that duty, and s has it
// no longer. The parameter n is the number of goroutines of this process that wait in the queue, or
// ask the store as its heads.
func (s *turns) takeWake(n int) bool {
	must := s.owesWake && n == 0
	s.owesWake = s.owesWake && !must
	return must
}

// planRelease decides how a release is sent that begins at the instant `began`. If `quiet` is
// true, the release notifies no other client, and this process owes them a notification. If
// `early` is true, the next goroutine of this process may ask as soon as the release is sent.
//
// The parameter mayBeQuiet means that the store offers quiet releases, and that a goroutine of
// this process waits. The parameter `async` means that nobody waits for the answer to the release.
func (s *turns) planRelease(began clock.Instant, mayBeQuiet, async bool) (quiet, early bool) {
	quiet = mayBeQuiet && s.others != 0 && began < s.burstUntil
	early = quiet || s.others == 0 || async && s.others == unknown
	s.owesWake = quiet
	return quiet, early
}

// yieldUntil returns the end of the yield after a release that began at `began`, and whose answer
// came at `now`; 0 if this process need not yield. If the number of other clients that wait is
// unknown, this process does not yield before yieldAt.
func (s *turns) yieldUntil(now, began clock.Instant) clock.Instant {
	least := yieldLeast
	switch {
	case s.others == 0:
		return 0
	case s.others > 0:
		least = time.Duration(s.others) * yieldEach
	case now < s.yieldAt:
		return 0
	}
	return now + min(max(yieldTrips*(now-began), least), yieldMost)
}

// takeOver returns what the last head has left to the next one, and removes its duties from s.
func (s *turns) takeOver() (handoffs int, owed yield, owesWake bool) {
	owed = s.yield
	owesWake = s.owesWake
	s.yield = yield{}
	s.owesWake = false
	return s.handoffs, owed, owesWake
}
