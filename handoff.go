package holdfast

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Handoff limits how long a lock may go from goroutine to goroutine of a Locker before it
// is released in the store, where other processes wait for it. Within these limits Unlock
// hands the lock to the goroutine that has waited longest. That needs no call to the
// store. The new holder gets the next fencing token of a block that the store reserved
// with the grant. Only a Mutex is passed on, not a fair or read-write lock, and no lock
// with the option Lease, AtMost or AtLeast.
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

	// handoffMost bounds Max: so many tokens are drawn with a grant, and they must
	// not run ahead of the clock that they start from.
	handoffMost = 4096

	// handoffFirst is how often a lock is passed on where nothing is known of the
	// queue yet.
	handoffFirst = 64
)

// withDefaults fills in what is zero, and bounds what the store bounds: each holder
// has a token of its own.
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

// The queues of a Locker pass on holds.
type (
	queues = queue.Queues[queueKey, *hold, queueState]
	place  = queue.Place[queueKey, *hold, queueState]
)

// queueKey names a queue: the kinds of one name have queues of their own.
type queueKey struct {
	name string
	kind kind
}

// queueState is what the heads of a queue leave to each other. The mutex of the queues
// guards it.
type queueState struct {
	turns int   // how often the next lease may be passed on
	start start // of clients elsewhere, until a head has taken note of it

	// others is how many clients elsewhere received the last release of the name
	// from here, and may be waiting for it; unknown if that is not known.
	others int

	// chance is when clients elsewhere get one, if it is not known whether they wait.
	// It comes ever later as long as they make no use of it.
	chance clock.Instant
	vain   int // how many were of no use, one after the other

	// What a head last learned of a holder elsewhere, for those who do not wait;
	// nil if nothing.
	lastBusy *driver.Outcome

	heard   clock.Instant // when the store last answered a head
	trouble error         // the last failure of a head since then

	// spare is the Waiter of a head before. It stays open while others are queued,
	// so that a subscription lives on from head to head.
	spare driver.Waiter
}

// answered takes note of an answer of the store: busy, or a grant if that is nil.
func (s *queueState) answered(now clock.Instant, busy *driver.Outcome) {
	s.lastBusy, s.heard, s.trouble = busy, now, nil
}

// silent says that nothing shows a caller that came at began that somebody holds the lock:
// no answer came since, and by the last one before that nobody does now.
func (s *queueState) silent(began, now clock.Instant) bool {
	if s.heard >= began {
		return false
	}
	return s.lastBusy == nil || s.lastBusy.RetryAfter > 0 && s.heard+s.lastBusy.RetryAfter < now
}

// leave leaves w to the next head, if n wait or ask; else it returns w, to be closed.
func (s *queueState) leave(w driver.Waiter, n int) (unused driver.Waiter) {
	if w == nil || n == 0 || s.spare != nil {
		return w
	}
	s.spare = w
	return nil
}

// takeSpare returns the Waiter that a head before has left, if it left one.
func (s *queueState) takeSpare() driver.Waiter {
	w := s.spare
	s.spare = nil
	return w
}

// unused returns the Waiter that is left to nobody, since only n wait or ask, to be
// closed.
func (s *queueState) unused(n int) driver.Waiter {
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

// takesHolds says that the claim may be given a hold of this process in place of
// one of its own, and that its own hold may be passed on.
func (a *acquisition) takesHolds() bool {
	return a.kind == plain && !a.req.leased && a.req.atLeast == 0 && a.req.note == a.locker.note && a.locker.handoff.Max > 0
}

// letNext lets the next goroutine of this process ask for the name, since the lease is
// over. Only the first call for a lease counts.
func (l *lease) letNext() {
	if l.queue != nil {
		l.letNextAfter(func(*queueState) clock.Instant { return 0 })
	}
}

// letNextAfter is letNext where clients elsewhere may go first: until says until when.
// It returns false if the next one was let in before.
func (l *lease) letNextAfter(until func(*queueState) clock.Instant) bool {
	h, turns, ok := l.admitNext()
	if !ok { // without the mutex that all goroutines share
		return false
	}
	var unused driver.Waiter
	l.queue.Next(h, func(s *queueState, waiters int) {
		then := until(s)
		s.turns, s.start = turns, start{then, s.others > 0}
		if waiters == 0 && then != 0 {
			l.locker.remember(queueKey{l.name, l.kind}, s.start)
		}
		unused = s.unused(waiters)
	})
	closeWaiter(unused)
	return true
}

// turnsNext is for how many turns to reserve tokens where the last block served
// used of them, and left were left. Tokens come from the server's clock in µs, and
// a turn takes longer than that: those that are used cannot run ahead of it, but
// those that are not used could.
func (o Handoff) turnsNext(used, left int32) int {
	want := int(used)
	if left == 0 {
		want *= 2
	}
	return min(max(want, handoffFirst), o.Max)
}

// Clients elsewhere that wait for a name go first when it was released here.

const (
	// How long other clients go first when a lock came back: some round trips, as
	// long as the release took, and a moment for each of those that are known to wait.
	yieldTrips = 3
	yieldLeast = 200 * time.Microsecond
	yieldEach  = time.Millisecond
	yieldMost  = 5 * time.Millisecond

	// vainMost bounds how much later a chance comes that nobody makes use of: it comes
	// after eight times Handoff.For.
	vainMost = 3

	// unknown is a number of waiting clients that nobody has counted.
	unknown = -1

	// startsMost bounds the names that are remembered, see Locker.remember.
	startsMost = 1024
)

// start is how clients elsewhere go first.
type start struct {
	until clock.Instant // 0 if they do not
	known bool          // that some wait
}

// yieldFor returns until when clients elsewhere go first after a release that began at
// began, 0 if they need not. Where it is not known whether others wait, they do so
// from chance on.
func (l *Locker) yieldFor(others int, began, chance clock.Instant) clock.Instant {
	if others == 0 {
		return 0
	}
	now, least := l.clock.Now(), yieldLeast
	switch {
	case others > 0:
		least = time.Duration(others) * yieldEach
	case now < chance:
		return 0
	}
	return now + min(max(yieldTrips*(now-began), least), yieldMost)
}

// plan sets when clients elsewhere get a chance after a grant: they came before it, or
// had a chance, or it is the first for long.
func (s *queueState) plan(l *lease, cameFirst, hadChance bool) {
	switch {
	case cameFirst:
		s.vain = 0
	case hadChance:
		s.vain = min(s.vain+1, vainMost)
	case s.chance != 0:
		return
	}
	s.chance = l.first.since + min(l.locker.handoff.For, time.Hour)<<s.vain
}

// remember keeps until when clients elsewhere go first for a name that nobody of this
// process waits for: the next to ask for it may be the one who has just released it.
// The mutex of the queues is held.
func (l *Locker) remember(key queueKey, s start) {
	if len(l.starts) >= startsMost {
		clear(l.starts) // this costs waiters elsewhere one chance
	}
	l.starts[key] = s
}

// What follows is for claims that can be granted beside others: readers and permits.
// Their queue may have several heads at once. One of those waits for the store, for
// all; who is granted lets others in, and who finds the name busy while somebody waits
// already goes back to its place in the queue.
//
// A reader lets in all waiters, since whatever admits one reader admits every other.
// How many permits are free nobody knows. So a permit that had to be waited for lets in
// one: permits that come back one by one cost two tries each, however many wait for
// them. One that was there at the first try lets in two, so that a queue that moves
// doubles with every trip.

// admit lets others in, since the claim was granted.
func (a *acquisition) admit() {
	n := 1
	switch {
	case a.kind == reader:
		n = math.MaxInt
	case !a.stayed:
		n = 2
	}
	var waiter, spare driver.Waiter
	a.place.Admit(n, func(s *queueState, n int) {
		waiter, spare = s.leave(a.waiter, n), s.unused(n)
		s.answered(a.locker.clock.Now(), nil)
	})
	closeWaiter(waiter)
	closeWaiter(spare)
}

// goBack waits in the queue once more, if somebody else waits for the store. A claim that
// has a place in the store's own queue waits there: a waiter in the store's queue may stand
// behind it.
func (a *acquisition) goBack(ctx, waitCtx context.Context) (back bool, err error) {
	if a.place == nil || a.kind.exclusive() || a.queued {
		return false, nil
	}
	if a.stayed = a.place.Stay(); a.stayed {
		return false, nil
	}
	p := a.place
	a.place = nil
	if _, _, err := p.Wait(waitCtx); err != nil {
		if a.failures == 0 { // else what the store's trouble was says more
			a.busyHere()
		}
		leave(p)
		return true, a.outOfTime(ctx)
	}
	a.place = p
	return true, nil
}

// letOthersGo waits for as long as clients elsewhere are to go first, who may wait
// for a lock that this process had for long. That nobody made use of it is known only
// to the store: who runs out of time meanwhile still asks once.
func (a *acquisition) letOthersGo(ctx, waitCtx context.Context) error {
	if a.place == nil || a.start.until == 0 || a.yield(waitCtx) || ctx.Err() == nil {
		return nil
	}
	a.last, a.answered = driver.Outcome{Holder: "another client"}, true
	return a.outOfTime(ctx)
}

// yield returns when it may be this process's turn again, or false if ctx ends
// first. Those who go first have a moment for it; after that the Waiter of the
// head before, or one of its own if some are known to wait, hears when they are done.
func (a *acquisition) yield(ctx context.Context) bool {
	if a.waiter = a.spareWaiter(); a.waiter == nil && a.start.known && a.start.until > a.locker.clock.Now() {
		a.waiter = a.locker.backend.Waiter(a.claim)
	}
	if a.waiter != nil {
		nap, cancel := context.WithTimeout(ctx, retry.SleepLimit(0, 0))
		defer cancel()
		_, _ = a.waiter.Wait(nap, driver.Outcome{}) // early, or in vain: the moment is theirs all the same
	}
	left := a.start.until - a.locker.clock.Now()
	return left <= 0 || retry.Sleep(ctx, left)
}
