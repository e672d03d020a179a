package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// acquisition is the state of one call that takes a lock, from its first step to the hold.
type acquisition struct {
	locker *Locker
	req    request
	claim  driver.Claim

	began    clock.Instant
	place    *place // the claim's place in a queue of this process; nil if it has none
	handoffs int    // how often the lease of the claim may be passed on; 0 if the claim did not wait in the queue
	yield    yield  // how long other clients go first, before the first try of this claim
	given    *hold  // the hold that another goroutine of this process passed on to the claim; nil if none did
	waiter   driver.Waiter
	inQueue  *queuedClaim    // renews the claim while it waits in the queue of a store with sessions; nil if the claim does not wait there
	asked    clock.Moment    // the start of the last try
	room     holdRoom        // where hold makes the lease and the Lock
	detached *detachedTry    // a try that goes on without the caller; nil if there is none
	removed  <-chan struct{} // closed when the release that giveUp began has ended; nil if there is none

	last    driver.Outcome // why the lock is busy: the last such answer of the store, or what this process knows
	lastErr error          // the error to report, see retry.ToReport; nil if no try has failed
	permits int            // how many permits the semaphore has in the store, if the claim has another number; otherwise 0

	lateFrom clock.Instant // the start of the first of the tries that the field `late` counts

	tries    int32
	failures int32 // how many tries in a row had no answer
	late     int32 // how many grants in a row came when most of their lease was over

	kind         kind
	answered     bool // the field `last` is set
	metOther     bool // the store refused the claim because another client had the lock
	owesWake     bool // the last release was quiet: if this claim is not granted, other clients must be notified
	grantUnused  bool // the store granted the claim, but no hold was made of it
	queued       bool // the store has the claim in its queue
	waitReported bool // EventWait was emitted
	asking       bool // a try is under way; still true after it panicked
}

func (a *acquisition) init(l *Locker, name string, k kind, r request) {
	*a = acquisition{locker: l, kind: k, req: r, claim: driver.Claim{Name: name}}
	if r.wait != forever || l.observed(context.Background()) { // otherwise nothing uses the field `began`, and to read a clock costs time
		a.began = l.clock.Now()
	}
}

// makeClaim completes the claim before the first try.
func (a *acquisition) makeClaim() {
	owner, seq := a.locker.nextOwner()
	a.claim = driver.Claim{
		Name: a.claim.Name, Client: a.locker.id, Seq: seq, Owner: owner, Mode: a.kind.mode(),
		Permits: a.req.permits, Fair: a.kind == fair, ReadWrite: a.kind.readWrite(), Beside: a.req.beside,
		NoQueue: a.req.wait == 0,
		TTL:     a.locker.leaseTTL(&a.req), Count: 1, Tokens: 1, Note: a.req.note, Anonymous: a.locker.anonymous,
		Quiet: a.owesWake,
	}
	if a.place != nil && a.acceptsHandoff() {
		a.claim.Tokens += min(a.handoffs, a.locker.handoff.Max)
	}
}

// replaceClaim makes a new claim in place of one that the store does not have any more. The
// store had granted the old claim, but the answer was lost, and then the claim was ended by
// force. So the caller never had the lock, and asks again with the new claim.
func (a *acquisition) replaceClaim() {
	a.leaveQueued()
	closeWaiter(a.waiter)
	a.waiter, a.queued = nil, false
	a.makeClaim()
}

// run waits for the claim's turn in this process, and then asks the store until the claim is
// granted or the caller's time is over.
func (a *acquisition) run(ctx context.Context) (*Lock, error) {
	waitCtx := ctx
	if a.req.wait != forever && a.req.wait > 0 {
		var cancel context.CancelFunc
		waitCtx, cancel = context.WithDeadline(ctx, a.locker.clock.Time(a.began+a.req.wait))
		defer cancel()
	}
	if err := a.waitInQueue(ctx, waitCtx); err != nil {
		return nil, err
	}
	if a.given != nil {
		return newLock(a.given), nil
	}
	var lock *Lock
	defer func() {
		if lock == nil { // also if the store's code panics
			a.giveUp()
			if waitCtx.Err() != nil { // otherwise the store has failed, and probably cannot remove the claim now
				a.awaitRemoval(time.Now().Add(removalWait))
			}
		}
	}()
	a.makeClaim()
	if err := a.yieldToOthers(ctx, waitCtx); err != nil {
		return nil, err
	}
	lock, err := a.ask(ctx, waitCtx)
	return lock, err
}

// waitInQueue takes a place in the queue of this process. It returns nil when the claim is a
// head of the queue, or when another goroutine has passed a hold on to the claim. It returns an
// error if the caller does not wait and need not ask the store, or if the caller's time is over.
// It returns nil at once for a fair claim, which queues in the store.
func (a *acquisition) waitInQueue(ctx, waitCtx context.Context) error {
	if a.skipsQueue() {
		return nil
	}
	var ownRelease *sentRelease
	if a.locker.asyncUnlock { // otherwise the Unlock of that release has not returned, so the lock is held
		ownRelease = a.ownRelease()
	}
	for {
		p, head := a.enter()
		switch {
		case head:
			a.place = p
			return nil
		case p == nil && ownRelease != nil && a.locker.releases.wait(waitCtx, ownRelease):
			ownRelease = nil // whoever is ahead now came after that release
			continue
		case p == nil:
			if a.busyLocally(); !a.answered { // a goroutine waits because the store fails
				return a.refused(ctx, retry.Unanswered(a.lastErr))
			}
			return a.busy()
		}
		a.reportQueued(ctx, p)
		given, ok, err := p.Wait(waitCtx)
		switch {
		case err != nil:
			a.busyLocally()
			a.leave(p)
			return a.outOfTime(ctx)
		case !ok:
			a.place = p
			a.becomeHead()
			return nil
		case given.take():
			a.given = given
			return nil
		} // the hold was lost before it was taken: back to the queue
	}
}

// enter takes a place in the queue, and reports whether the caller asks the store now. A caller
// that does not wait gets a place in a queue that it begins itself, and none in another. For a
// permit or a read lock it gets no place, and asks unless another goroutine waits for the store:
// among the heads it would keep those back that wait.
func (a *acquisition) enter() (p *place, head bool) {
	waits := a.req.wait != 0
	begin := func() queueState {
		if waits {
			a.yield = a.locker.yields[a.queueKey()]
			delete(a.locker.yields, a.queueKey())
		}
		return queueState{handoffs: handoffFirst, others: unknown}
	}
	switch {
	case a.kind.exclusive():
		return a.locker.queues.Enter(a.queueKey(), waits, a.acceptsHandoff(), begin)
	case waits:
		return a.locker.queues.Join(a.queueKey(), sharedFirst, begin)
	default:
		return nil, !a.locker.queues.Stays(a.queueKey())
	}
}

// becomeHead takes what the previous head has left in the state of the queue.
func (a *acquisition) becomeHead() {
	a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) {
		a.handoffs, a.yield, a.owesWake = s.handoffs, s.yield, s.owesWake
		s.yield, s.owesWake = yield{}, false
	})
}

// reportQueued reports that the claim waits in the queue. If the observer panics, reportQueued
// gives up the place, because nothing else would remove the place from the queue.
func (a *acquisition) reportQueued(ctx context.Context, p *place) {
	reported := false
	defer func() {
		if !reported {
			a.leave(p)
		}
	}()
	a.reportWait(ctx)
	reported = true
}

// skipsQueue reports whether the claim does not use the queue of this process. A fair claim
// queues in the store. The claim of an owner that already holds the write side must not
// wait behind goroutines that wait for that owner.
func (a *acquisition) skipsQueue() bool { return a.kind == fair || a.req.beside != "" }

func (a *acquisition) queueKey() queueKey { return queueKey{a.claim.Name, a.kind} }

// ask asks the store until it has a hold or an error. Each round makes one try. If the store
// grants the claim, ask makes a hold of it. If the lock is busy, ask waits before the next try.
// If the try has no usable answer, the method `failed` decides whether ask tries again.
func (a *acquisition) ask(ctx, waitCtx context.Context) (*Lock, error) {
	for {
		ownRelease := a.ownRelease()
		a.asked = a.locker.clock.Read()
		tryCtx := waitCtx
		if a.tries == 0 {
			tryCtx = ctx
		}
		a.asking = true
		out, err := a.try(tryCtx)
		a.asking = false
		var lock *Lock
		var misfit error
		if err == nil && out.Granted {
			if out, misfit = a.fitMargin(tryCtx, out); misfit == nil {
				lock = a.granted(a.asked, out)
			}
		}
		a.locker.reportCall(ctx, OpTry, &a.claim, a.asked.Mono, err)
		switch {
		case lock != nil:
			return lock, nil
		case misfit != nil:
			return nil, misfit
		case err == nil && !out.Granted && ownRelease != nil:
			if !a.refusedBeside(waitCtx, ownRelease, out) {
				return nil, a.outOfTime(ctx)
			}
			continue
		case err == nil && !out.Granted:
			meanwhile, err := a.wait(ctx, waitCtx, out)
			if err != nil {
				return nil, err
			}
			if lock := a.grantedMeanwhile(meanwhile); lock != nil {
				return lock, nil
			}
			continue
		}
		if err := a.failed(ctx, waitCtx, err); err != nil {
			return nil, err
		}
		if a.claim.Indeterminate { // the store may have granted it: the other heads of the queue would then wait for this claim
			continue
		}
		if _, err := a.goBack(ctx, waitCtx); err != nil { // one head is enough to ask a store that fails
			return nil, err
		}
	}
}

// try makes one attempt. The attempt ends when ctx ends, or after retry.TryTimeout. The first
// attempt of a call with a wait limit ends with that limit, but may take the time of a round
// trip even if the limit is shorter.
func (a *acquisition) try(ctx context.Context) (driver.Outcome, error) {
	limit, wait := retry.TryTimeout(a.claim.TTL, int(a.failures)), time.Duration(0)
	if a.tries == 0 && a.req.wait > 0 && a.req.wait != forever {
		wait = max(a.began+a.req.wait-a.locker.clock.Now(), retry.TimeoutLeast)
		limit = min(limit, wait)
	}
	a.tries++
	if !a.locker.info.Caps.Tombstones {
		return a.tryDetached(ctx, wait)
	}
	attempt := deadline.New(ctx, time.Now().Add(limit))
	defer attempt.End()
	return a.locker.backend.Try(attempt, a.claim)
}

// granted makes a hold of the claim. It returns nil if most of the lease passed before the
// answer came. The caller then tries the same claim again, which extends the lease.
func (a *acquisition) granted(start clock.Moment, out driver.Outcome) *Lock {
	out.ValidFor = min(out.ValidFor, clock.Longest)
	if a.req.leased {
		out.ValidFor = min(out.ValidFor, a.req.lease)
	}
	margin := a.margin(out.ValidFor)
	if a.tooLate(start, out, margin) {
		a.claim.Indeterminate = true
		if a.late++; a.late == 1 {
			a.lateFrom = start.Mono
		}
		return nil
	}
	lock := a.hold(start, out, margin)
	if a.claim.Indeterminate {
		a.locker.reportIndeterminate(OpTry, &a.claim, true)
	}
	return lock
}

// grantedMeanwhile makes a hold of a grant that the store sent while the claim waited. It
// returns nil if `out` is no grant, or if another try is needed. Another try is needed in these
// cases: the lease has a fixed end, which only a try sets; an earlier try had no answer; the
// grant came too late; the lease is too short for the margin that the user chose; the machine
// may have been suspended.
func (a *acquisition) grantedMeanwhile(out driver.Outcome) *Lock {
	if !out.Granted || a.req.leased || a.claim.Indeterminate {
		return nil
	}
	out.ValidFor = min(out.ValidFor, clock.Longest)
	margin := min(a.locker.margin, out.ValidFor/10)
	switch {
	case a.tooLate(a.asked, out, margin):
		return nil
	case margin < a.locker.margin && a.locker.marginChosen: // by this margin the user says how long a holder needs to stop
		return nil
	case a.locker.clock.Read().Suspended(a.asked, margin/2): // only the store knows whether the lease lasted through the suspension
		return nil
	}
	return a.hold(a.asked, out, margin)
}

// tooLate reports whether more than half of a lease has passed. The lease began at the time
// `start`. Its margin does not count as a part of the lease.
func (a *acquisition) tooLate(start clock.Moment, out driver.Outcome, margin time.Duration) bool {
	return start.Mono+out.ValidFor-margin-a.locker.clock.Now() < (out.ValidFor-margin)/2
}

// hold makes a hold of a lease that began at the time `start`.
func (a *acquisition) hold(start clock.Moment, out driver.Outcome, margin time.Duration) *Lock {
	l := newLease(a, start, start.Mono+out.ValidFor-margin, out)
	lock := a.room.newLock(&l.first)
	a.leaveQueued()
	a.holdPlace(l)
	a.locker.renewals.Add(l, start, l.ends-start.Mono, l.fixed)
	if a.kind == permit {
		a.notePermits(out)
	}
	return lock
}

// holdPlace turns the claim's place in the queue into the place of the holder. If several holds
// of the name may exist at once, holdPlace ends the place and admits waiters instead.
func (a *acquisition) holdPlace(l *lease) {
	switch {
	case a.place == nil:
		closeWaiter(a.waiter)
	case a.kind.exclusive():
		unused := a.waiter
		l.queue = a.place.Hold(&l.first, func(s *queueState, waiters int) {
			s.planYield(a, l.first.began)
			unused = s.keepSpare(a.waiter, waiters)
			s.answered(l.countsFrom, nil)
		})
		closeWaiter(unused)
	default:
		a.admit()
	}
	a.place = nil
}

// foundBusy records an answer of the store that the lock is busy.
func (a *acquisition) foundBusy(out driver.Outcome) {
	a.failures, a.late, a.last, a.answered = 0, 0, out, true
	a.queued = a.queued || out.Queued
}

// wait records that another client has the lock, and sleeps until another try may succeed. Each
// sleep is bounded, because a notification of the store may be lost. wait returns the grant that
// the store sent during the sleep, or the zero Outcome if it sent none. It returns an error if the
// caller does not wait, or if the caller's time is over.
func (a *acquisition) wait(ctx, waitCtx context.Context, out driver.Outcome) (meanwhile driver.Outcome, err error) {
	a.foundBusy(out)
	a.metOther = true
	a.owesWake, a.claim.Quiet = false, false // the other holder notifies when it releases
	if a.place != nil {
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { s.answered(a.locker.clock.Now(), &out) })
	}
	if a.req.wait == 0 {
		return meanwhile, a.busy()
	}
	a.locker.reports.start()
	a.locker.logWaiting(ctx, a)
	a.reportWait(ctx)
	if back, err := a.goBack(ctx, waitCtx); back {
		return meanwhile, err
	}
	if a.waiter == nil {
		defer closeWaiter(a.spareWaiter())
		a.waiter = a.locker.backend.Waiter(a.claim)
	}
	if out.Queued {
		a.keepQueued(waitCtx)
	}
	meanwhile, woken := retry.Nap(a.queuedContext(waitCtx), a.waiter, out, retry.SleepLimit(a.locker.info.Recheck, out.RetryAfter))
	if waitCtx.Err() != nil {
		return meanwhile, a.outOfTime(ctx)
	}
	a.reportWake(ctx, woken)
	return meanwhile, nil
}

// spareWaiter takes the spare Waiter out of the queue and returns it; nil if there is none.
func (a *acquisition) spareWaiter() (w driver.Waiter) {
	if a.place != nil {
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { w = s.takeSpare() })
	}
	return w
}
