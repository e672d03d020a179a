package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// queueKey identifies a queue. Each kind of lock has its own queue, also under one name.
type queueKey struct {
	name string
	kind kind
}

// queueState is what the head of a queue leaves to the next head. The mutex of the queues
// guards it.
type queueState struct {
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

	// lastBusy is the last answer of the store to a head, if that was "busy"; nil if it was a
	// grant, or if there is none. A caller that gives up in the queue reports the holder that
	// this answer names.
	lastBusy *driver.Outcome

	answeredAt clock.Instant // when the store last answered a head
	lastErr    error         // the last failure of a head since answeredAt; nil if there is none

	// spare is the Waiter of an earlier head. It stays open while goroutines are queued,
	// so that the next head uses the same subscription.
	spare driver.Waiter
}

// answered records an answer of the store. The parameter `busy` is an answer that the lock is
// busy; nil means that the answer was a grant.
func (s *queueState) answered(now clock.Instant, busy *driver.Outcome) {
	s.lastBusy, s.answeredAt, s.lastErr = busy, now, nil
}

// unconfirmed reports whether no answer of the store shows that the lock is held now. An answer
// shows that if it came after `began`, the start of a call. An older answer shows it only if it
// was "busy", and if its RetryAfter is unknown or has not passed.
func (s *queueState) unconfirmed(began, now clock.Instant) bool {
	if s.answeredAt >= began {
		return false
	}
	return s.lastBusy == nil || s.lastBusy.RetryAfter > 0 && s.answeredAt+s.lastBusy.RetryAfter < now
}

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
// again, so that other clients that wait can get the lock first. docs/turns.md explains how
// the next holder is chosen, and these constants.

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

	// unusedYieldsMost bounds queueState.unusedYields. The distance between two yields
	// doubles with each yield that no client used, and so is at most eight times Handoff.For.
	unusedYieldsMost = 3

	// unknown is the number of other clients that wait, if the store did not count them.
	unknown = -1
)

// yield is the time for which other clients go first.
type yield struct {
	until      clock.Instant // its end; 0 if this process need not yield
	othersWait bool          // the store reported that other clients wait
}

// planYield sets when this process yields next, and whether a burst begins, after the grant of
// the claim of a. The hold began at the instant `began`. If this process yielded before the grant,
// and no other client had the lock, no client used that yield.
//
// A claim whose lease may be passed on begins no burst, even if nobody waited when it was sent, so
// that no tokens are reserved for that: the store would be asked for each grant of the burst. It is
// faster when another process takes the lock, and passes it on.
func (s *queueState) planYield(a *acquisition, began clock.Instant) {
	wasBusy, yielded := a.metOther, a.yield.until != 0
	switch {
	case wasBusy:
		s.unusedYields = 0
	case yielded:
		s.unusedYields = min(s.unusedYields+1, unusedYieldsMost)
	case s.yieldAt != 0:
		return
	}
	s.yieldAt = began + min(a.locker.handoff.For, time.Hour)<<s.unusedYields
	othersHadChance := wasBusy || yielded
	if othersHadChance && !a.acceptsHandoff() {
		s.burstUntil = began + burstFor
	}
}

// mustWake reports whether other clients must be notified now, because the last release was
// quiet and no goroutine of this process will take the name. The parameter n is that of
// keepSpare.
func (s *queueState) mustWake(n int) bool {
	must := s.owesWake && n == 0
	s.owesWake = s.owesWake && !must
	return must
}

// keepSpare keeps w for the next head. The parameter n is the number of goroutines of this
// process that wait in the queue, or ask the store as its heads. If n is 0, or if there is a
// spare Waiter already, it returns w, which the caller must close.
func (s *queueState) keepSpare(w driver.Waiter, n int) (unused driver.Waiter) {
	if w == nil || n == 0 || s.spare != nil {
		return w
	}
	s.spare = w
	return nil
}

// takeSpare returns the spare Waiter, which the caller owns from then on; nil if there is
// none.
func (s *queueState) takeSpare() driver.Waiter {
	w := s.spare
	s.spare = nil
	return w
}

// dropSpare returns the spare Waiter if n is 0, because then no goroutine needs that Waiter any
// more. The caller must close it. The parameter n is that of keepSpare.
func (s *queueState) dropSpare(n int) driver.Waiter {
	if n > 0 {
		return nil
	}
	return s.takeSpare()
}

func closeWaiter(w driver.Waiter) {
	if w != nil {
		w.Close()
	}
}
