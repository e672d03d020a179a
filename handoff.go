package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Handoff limits how long a lock may go from goroutine to goroutine of a Locker before it is
// released in the store, where other processes wait for it. Within these limits Unlock passes
// the lock on to the goroutine that has waited longest. That needs no call to the store. The
// new holder gets the next fencing token of a block that the store reserved with the grant.
// Only a Mutex is passed on, not a fair or read-write lock, and no lock with the option
// Lease, AtMost, AtLeast or Note.
//
// In the store the lock keeps the owner of its first holder.
type Handoff struct {
	// Max is how often a lock is passed on before it is released in the store. The
	// default and the maximum are 4096; a negative value turns passing on off. The store
	// reserves 64 tokens first, and twice as many whenever all were used, so that few are
	// wasted.
	Max int

	// For is how long after the grant of the store a lock may be passed on. It does not
	// limit how long a holder keeps the lock. Default 50ms.
	For time.Duration
}

const (
	defaultHandoffMax = 4096
	defaultHandoffFor = 50 * time.Millisecond

	// handoffMost bounds Max. A grant reserves up to that many tokens. The counter of tokens
	// starts from a clock, and must not get ahead of that clock.
	handoffMost = 4096

	// handoffFirst is the size of the first block: how often a lock may be passed on before
	// anything is known about the queue.
	handoffFirst = 64
)

// withDefaults returns o with the defaults in place of zeros. Max is at most what the
// store can reserve, because each holder needs a token of its own.
func (o Handoff) withDefaults(info driver.Info) Handoff {
	if o.Max == 0 {
		o.Max = defaultHandoffMax
	}
	o.Max = min(o.Max, handoffMost)
	if most := info.MaxTokens; most > 0 && info.Caps.Fencing {
		o.Max = min(o.Max, most-1)
	}
	if o.For == 0 {
		o.For = defaultHandoffFor
	}
	return o
}

// In the queues of a Locker, goroutines wait for a hold.
type (
	queues = queue.Queues[queueKey, *hold, queueState]
	place  = queue.Place[queueKey, *hold, queueState]
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

// acceptsHandoff reports whether the claim may get a hold of another goroutine of this
// process in place of its own, and whether its own hold may be passed on.
func (a *acquisition) acceptsHandoff() bool {
	return a.kind == plain && !a.req.leased && a.req.atLeast == 0 && a.req.note == a.locker.note && a.locker.handoff.Max > 0
}

// letNext lets the next goroutine of this process ask the store for the name, after the lease
// has ended. Only the first call for a lease has an effect.
func (l *lease) letNext() {
	if l.queue != nil {
		l.letNextAfter(func(*queueState) clock.Instant { return 0 })
	}
}

// letNextAfter is letNext for a release after which this process may yield to other clients.
// The function `until` returns the end of the yield, or 0 if there is none. letNextAfter
// returns false, and changes nothing, if an earlier call has let the next goroutine ask.
func (l *lease) letNextAfter(until func(*queueState) clock.Instant) bool {
	h, handoffs, ok := l.admitNext()
	if !ok { // checked first without the mutex that all goroutines share
		return false
	}
	var unused driver.Waiter
	wake := false
	l.queue.Next(h, func(s *queueState, waiters int) {
		then := until(s)
		s.handoffs, s.yield = handoffs, yield{then, s.others > 0}
		wake = s.mustWake(waiters)
		if waiters == 0 && then != 0 {
			l.locker.rememberYield(queueKey{l.name, l.kind}, s.yield)
		}
		unused = s.dropSpare(waiters)
	})
	closeWaiter(unused)
	if wake {
		l.locker.wake(l.claim(l.locker.clock.Now()))
	}
	return true
}

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

	// yieldsMost bounds the names for which rememberYield keeps a yield.
	yieldsMost = 1024
)

// yield is the time for which other clients go first.
type yield struct {
	until      clock.Instant // its end; 0 if this process need not yield
	othersWait bool          // the store reported that other clients wait
}

// yieldUntil returns the end of the yield after a release that began at `began`, or 0 if this
// process need not yield. The parameter `others` is the number of other clients that wait. If
// that number is unknown, this process does not yield before yieldAt.
func (l *Locker) yieldUntil(others int, began, yieldAt clock.Instant) clock.Instant {
	if others == 0 {
		return 0
	}
	now, least := l.clock.Now(), yieldLeast
	switch {
	case others > 0:
		least = time.Duration(others) * yieldEach
	case now < yieldAt:
		return 0
	}
	return now + min(max(yieldTrips*(now-began), least), yieldMost)
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

// rememberYield keeps a yield for a name that no goroutine of this process waits for. The next
// goroutine that asks for the name has to yield, too, because it may be the one that has just
// released the lock. The mutex of the queues is held.
func (l *Locker) rememberYield(key queueKey, s yield) {
	if len(l.yields) >= yieldsMost {
		clear(l.yields) // the other clients miss one yield for each of these names
	}
	l.yields[key] = s
}

// What follows is for readers and permits. Several of them can be held at the same time, so
// their queue may have several heads at once. A head that gets its lock admits more heads from
// the queue. A head that finds the name busy goes back to its place in the queue, if another
// head waits for the store already. docs/turns.md explains which heads are admitted.

const (
	// sharedFirst is how many heads ask the store before it has answered any of them. If the
	// name is busy, all of them ask in vain, and each may get a place in the queue of the store.
	sharedFirst = 64

	// sharedMost is how many heads there are at most after some were admitted. In a store with
	// sessions there are at most sharedFirst, because the store reads the claims of all holders
	// and waiters for each answer.
	sharedMost = 1024
)

// admit makes waiters heads of the queue, after the claim was granted. A reader admits all
// waiters, because a lock that one reader can get is free for every reader.
func (a *acquisition) admit() {
	most := sharedMost
	if a.locker.info.SessionTTL > 0 {
		most = sharedFirst
	}
	var waiter, spare driver.Waiter
	a.place.Admit(a.kind == reader, most, func(s *queueState, n int) {
		waiter, spare = s.keepSpare(a.waiter, n), s.dropSpare(n)
		s.answered(a.locker.clock.Now(), nil)
	})
	closeWaiter(waiter)
	closeWaiter(spare)
}

// goBack puts the claim back to its place in the queue and waits there, if another head waits
// for the store. Then the result `back` is true. In that case err is nil when the claim is a
// head again, and not nil if the caller's time is over. A claim that is in the store's own queue
// does not go back: the other head may be behind it there, and the two would wait for each other.
func (a *acquisition) goBack(ctx, waitCtx context.Context) (back bool, err error) {
	if a.place == nil || a.kind.exclusive() || a.place.Stay(a.queued) {
		return false, nil
	}
	p := a.place
	a.place = nil
	if _, _, err := p.Wait(waitCtx); err != nil {
		if a.failures == 0 { // otherwise the error of the store says more
			a.busyLocally()
		}
		a.leave(p)
		return true, a.outOfTime(ctx)
	}
	a.place = p
	return true, nil
}

// yieldToOthers waits while other clients go first, because they may have waited while this
// process had the lock for long. It returns an error if ctx ends first. If only the wait limit
// ends during the yield, the caller still asks the store once, because only the store knows
// whether another client took the lock.
func (a *acquisition) yieldToOthers(ctx, waitCtx context.Context) error {
	if a.place == nil || a.yield.until == 0 || a.waitYield(waitCtx) || ctx.Err() == nil {
		return nil
	}
	a.last, a.answered = driver.Outcome{Holder: "another client"}, true
	return a.outOfTime(ctx)
}

// waitYield returns true when this process may ask again, and false if ctx ends first. It waits
// for the end of the yield. If there is a spare Waiter, or if other clients are known to wait,
// it first waits until the store notifies its Waiter, but for a second at most. After such a
// notification another client has probably had the lock and released it.
func (a *acquisition) waitYield(ctx context.Context) bool {
	if a.waiter = a.spareWaiter(); a.waiter == nil && a.yield.othersWait && a.yield.until > a.locker.clock.Now() {
		a.waiter = a.locker.backend.Waiter(a.claim)
	}
	if a.waiter != nil {
		nap, cancel := context.WithTimeout(ctx, retry.SleepLimit(0, 0))
		defer cancel()
		_, _ = a.waiter.Wait(nap, driver.Outcome{}) // after an error, too, the rest of the yield has to pass
	}
	left := a.yield.until - a.locker.clock.Now()
	return left <= 0 || retry.Sleep(ctx, left)
}
