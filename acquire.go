package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// acquire takes a lock, and reports the result to the observer and the log.
func (l *Locker) acquire(ctx context.Context, name string, k kind, r request) (*Lock, error) {
	if r.refused != nil {
		return l.outlast(ctx, name, k, r)
	}
	var a acquisition
	a.init(ctx, l, name, k, r)
	lock, err := a.run(ctx)
	if l.observed(ctx) {
		a.report(ctx, lock, err)
	}
	return lock, err
}

// outlast takes a lock as acquire does, and goes on after refusals as RetryRefused says.
func (l *Locker) outlast(ctx context.Context, name string, k kind, call request) (*Lock, error) {
	began := time.Now()
	a := &acquisition{}
	a.init(ctx, l, name, k, call)
	for refusals := 1; ; refusals++ {
		lock, err := a.run(ctx)
		goOn := false
		if err != nil && call.wait != 0 && l.mayBeRepaired(err) && ctx.Err() == nil {
			goOn, err = a.pauseRefused(ctx, refusals, call.left(began), err)
		}
		if !goOn {
			if l.observed(ctx) {
				a.report(ctx, lock, err)
			}
			return lock, err
		}
		a = a.restarted(ctx, call)
	}
}

// restarted returns a new acquisition for the same call, which has waited since the same instant. The
// claim is a new one, because the store has refused the old one for good.
func (a *acquisition) restarted(ctx context.Context, r request) *acquisition {
	next := &acquisition{}
	next.init(ctx, a.locker, a.claim.Name, a.kind, r)
	next.began = a.began
	next.tries = a.tries
	next.waitReported = a.waitReported
	return next
}

// mayBeRepaired reports whether RetryRefused goes on after err.
func (l *Locker) mayBeRepaired(err error) bool {
	return retry.Repairable(err) && (l.everAnswered.Load() || errors.Is(err, driver.ErrUnable))
}

// pauseRefused reports a refusal, and waits before the next attempt. The parameter `left` is
// how long the caller still waits. If the caller's time ends before the next attempt,
// pauseRefused returns false and the error of the call.
func (a *acquisition) pauseRefused(ctx context.Context, refusals int, left time.Duration, refusal error) (goOn bool, err error) {
	pause := retry.RefusedDelay(refusals)
	a.reportWait(ctx)
	a.req.refused(refusal, pause)
	a.locker.log.WarnContext(ctx, "the store refuses the lock, asking again",
		"lock", a.claim.Name, "backend", a.locker.info.Name, "refusals", refusals, "pause", pause, "err", refusal)
	switch {
	case !retry.Sleep(ctx, min(pause, left)):
		return false, fmt.Errorf("%w; %w", refusal, retry.ContextError(ctx))
	case left <= pause:
		return false, fmt.Errorf("%w; refused until the time to wait was over", refusal)
	}
	return true, nil
}

// acquisition is the state of one call that takes a lock, from its first step to the hold.
type acquisition struct {
	locker *Locker
	req    request
	kind   kind
	claim  driver.Claim
	room   holdRoom // where hold makes the lease and the Lock

	began  clock.Instant // when the call began. If nobody observes and the caller waits forever: when it began to wait, and 0 before that
	denial denial        // why there is no lock so far

	// In the queue of this process.

	place    *place // the claim's place in a queue of this process; nil if it has none
	handoffs int    // how often the lease of the claim may be passed on; 0 if the claim did not wait in the queue
	yield    yield  // how long other clients go first, before the first try of this claim
	given    *hold  // the hold that another goroutine of this process passed on to the claim; nil if none did

	// Between the tries.

	asked    clock.Moment // the start of the last try
	waiter   driver.Waiter
	inQueue  *queuedClaim // renews the claim while it waits in the queue of a store with sessions; nil if the claim does not wait there
	tries    int32
	metOther bool // the store refused the claim because another client had the lock
	owesWake bool // the last release was quiet: if this claim is not granted, other clients must be notified

	// What the store may know of the claim, beside claim.Indeterminate: see mayBeInStore.

	asking      bool         // a try is under way; still true after it panicked
	detached    *detachedTry // a try that goes on without the caller; nil if there is none
	queued      bool         // the store has the claim in its queue
	grantUnused bool         // the store granted the claim, but no hold was made of it

	removed <-chan struct{} // closed when the release that giveUp began has ended; nil if there is none

	// For the events.

	permits      int  // how many permits the semaphore has in the store, if the claim has another number; otherwise 0
	waitReported bool // EventWait was emitted
}

func (a *acquisition) init(ctx context.Context, l *Locker, name string, k kind, r request) {
	*a = acquisition{locker: l, kind: k, req: r, claim: driver.Claim{Name: name}}
	if r.wait != forever || l.observed(ctx) { // otherwise only a claim that waits needs the field `began`, and to read a clock costs time
		a.began = l.clock.Now()
	}
}

// beginsToWait sets the field `began`, if init has not set it.
func (a *acquisition) beginsToWait() {
	if a.began == 0 {
		a.began = a.locker.clock.Now()
	}
}

// waited returns how long the call has taken so far; 0 if the field `began` is not set.
func (a *acquisition) waited() time.Duration {
	if a.began == 0 {
		return 0
	}
	return a.locker.clock.Now() - a.began
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
	a.waiter = nil
	a.queued = false
	a.grantUnused = false
	a.makeClaim()
}

// run waits for the claim's turn in this process, and then asks the store until the claim is
// granted or the caller's time is over.
func (a *acquisition) run(ctx context.Context) (lock *Lock, err error) {
	t := callTime{ctx, ctx}
	if limited(a.req.wait) {
		var cancel context.CancelFunc
		t.limited, cancel = context.WithDeadline(ctx, a.locker.clock.Time(a.began+a.req.wait))
		defer cancel()
	}
	if err := a.waitInQueue(t); err != nil {
		return nil, err
	}
	if a.given != nil {
		return newLock(a.given), nil
	}
	defer func() {
		if lock == nil { // also if the store's code panics
			a.giveUp()
			if t.limited.Err() != nil { // otherwise nothing was sent that the caller could wait for, or the store has failed
				a.awaitRemoval(time.Now().Add(removalWait))
			}
		}
	}()
	a.makeClaim()
	if err := a.yieldToOthers(t); err != nil {
		return nil, err
	}
	return a.ask(t)
}

// callTime has the contexts of a call that takes a lock: that of its caller, and one that also ends
// when the time of the option Wait is over.
type callTime struct{ caller, limited context.Context }

// waitInQueue takes a place in the queue of this process. It returns nil when the claim is a
// head of the queue, or when another goroutine has passed a hold on to the claim. It returns an
// error if the caller does not wait and need not ask the store, or if the caller's time is over.
// It returns nil at once for a fair claim, which queues in the store.
func (a *acquisition) waitInQueue(t callTime) error {
	if a.skipsQueue() {
		return nil
	}
	var ownRelease *sentRelease
	if a.locker.asyncUnlock { // otherwise the Unlock of that release has not returned, so the lock is held
		ownRelease = a.ownRelease()
	}
	for {
		p, head := a.enter()
		if head {
			a.place = p
			return nil
		}
		if p == nil && ownRelease != nil && a.locker.releases.wait(t.limited, ownRelease) {
			ownRelease = nil // whoever is ahead now came after that release
			continue
		}
		if p == nil {
			return a.refusedInQueue(t.caller)
		}
		a.beginsToWait()
		a.reportQueued(t.caller, p)
		given, ok, err := p.Wait(t.limited)
		switch {
		case err != nil:
			a.behindOthers()
			a.leave(p)
			return a.outOfTime(t.caller)
		case !ok:
			a.place = p
			a.becomeHead()
			return nil
		case given.take():
			a.given = given
			return nil
		}
		// The hold was lost before it was taken, so the claim goes to the end of the queue.
	}
}

// refusedInQueue returns the error of a caller that does not wait, and that has other goroutines
// of this process before it.
func (a *acquisition) refusedInQueue(ctx context.Context) error {
	a.behindOthers()
	if !a.denial.isBusy { // a goroutine waits because the store fails
		return refusedBy(ctx, a.claim.Name, retry.Unanswered(a.denial.err))
	}
	return a.busy()
}

// enter takes a place in the queue, and reports whether the caller asks the store now. A caller
// that does not wait gets a place in a queue that it begins itself, and none in another. If it wants
// a permit or a read lock, it gets no place at all, and asks the store, unless another goroutine
// waits for the store. With a place among the heads, it would keep waiting goroutines from asking.
func (a *acquisition) enter() (p *place, head bool) {
	waits := a.req.wait != 0
	beginLocked := func() queueState { // the mutex of the queues guards Locker.yields
		if waits {
			a.yield = a.locker.yields[a.queueKey()]
			delete(a.locker.yields, a.queueKey())
		}
		return queueState{turns: newTurns()}
	}
	switch {
	case a.kind.exclusive():
		return a.locker.queues.Enter(a.queueKey(), waits, a.acceptsHandoff(), beginLocked)
	case waits:
		return a.locker.queues.Join(a.queueKey(), sharedFirst, beginLocked)
	default:
		return nil, !a.locker.queues.Stays(a.queueKey())
	}
}

// becomeHead takes what the previous head has left in the state of the queue.
func (a *acquisition) becomeHead() {
	a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) {
		a.handoffs, a.yield, a.owesWake = s.takeOver()
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
	a.logQueued(ctx)
	a.reportWait(ctx)
	reported = true
}

// logQueued logs that the claim waits behind another goroutine of this Locker, as logWaiting does
// for a claim that waits for another process.
func (a *acquisition) logQueued(ctx context.Context) {
	if !a.waitReported && a.locker.log.Enabled(ctx, slog.LevelDebug) {
		var before denial
		before.behind(a.locker, a.queueKey(), a.began, true)
		a.locker.log.DebugContext(ctx, "waiting", "lock", a.claim.Name, "backend", a.locker.info.Name,
			"holder", before.busy.Holder, "behind", "a goroutine of this Locker")
	}
}

// skipsQueue reports whether the claim does not use the queue of this process. A fair claim
// queues in the store. The claim of an owner that already holds the write side must not
// wait behind goroutines that wait for that owner.
func (a *acquisition) skipsQueue() bool { return a.kind == fair || a.req.beside != "" }

func (a *acquisition) queueKey() queueKey { return queueKey{a.claim.Name, a.kind} }

// acceptsHandoff reports whether the claim may get a hold of another goroutine of this
// process in place of its own, and whether its own hold may be passed on.
func (a *acquisition) acceptsHandoff() bool {
	return a.kind == plain && !a.req.leased && a.req.atLeast == 0 && a.req.note == a.locker.note && a.locker.handoff.Max > 0
}

// yieldToOthers waits while other clients go first, because they may have waited while this
// process had the lock for long. It returns an error if ctx ends first. If only the wait limit
// ends during the yield, the caller still asks the store once, because only the store knows
// whether another client took the lock.
func (a *acquisition) yieldToOthers(t callTime) error {
	if a.place == nil || a.yield.until == 0 || a.waitYield(t.limited) || t.caller.Err() == nil {
		return nil
	}
	return a.outOfTime(t.caller)
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
		out, err := a.waiter.Wait(nap, driver.Outcome{}) // after an error, too, the rest of the yield has to pass
		if err == nil && out.Turn {
			return true
		}
	}
	left := a.yield.until - a.locker.clock.Now()
	return left <= 0 || retry.Sleep(ctx, left)
}

// spareWaiter takes the spare Waiter out of the queue and returns it; nil if there is none.
func (a *acquisition) spareWaiter() (w driver.Waiter) {
	if a.place != nil {
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { w = s.takeSpare() })
	}
	return w
}

// ask asks the store until it has a hold or an error. Each round makes one try.
func (a *acquisition) ask(t callTime) (*Lock, error) {
	for {
		lock, err := a.round(t)
		if lock != nil || err != nil {
			return lock, err
		}
	}
}

// round makes one try, and returns the hold or the error that comes of it. If another try is
// needed, it waits until that may succeed, and returns neither.
func (a *acquisition) round(t callTime) (*Lock, error) {
	ownRelease := a.ownRelease()
	tryCtx := t.limited
	if a.tries == 0 { // the method try limits the first try by itself
		tryCtx = t.caller
	}
	a.asked = a.locker.clock.Read()
	a.asking = true
	out, err := a.try(tryCtx)
	a.asking = false
	if err == nil && out.Granted {
		return a.takeGrant(t, out)
	}
	a.locker.reportCall(t.caller, OpTry, &a.claim, a.asked.Mono, err)
	if err != nil {
		return nil, a.noAnswer(t, err)
	}
	if ownRelease != nil {
		return nil, a.busyBesideRelease(t, ownRelease, out)
	}
	meanwhile, err := a.waitForHolder(t, out)
	if err != nil {
		return nil, err
	}
	return a.grantedMeanwhile(meanwhile), nil
}

// takeGrant makes a hold of the grant `out`, the answer to a try. It returns neither a hold nor an
// error if another try of the claim is needed.
func (a *acquisition) takeGrant(t callTime, out driver.Outcome) (*Lock, error) {
	asked := a.asked
	a.grantUnused = true // until there is a hold, also if the store's code panics
	start, validFor, err := a.leaseThatFits(t.limited, out.ValidFor)
	var lock *Lock
	if err == nil {
		out.ValidFor = validFor
		lock = a.granted(start, out)
	}
	a.grantUnused = lock == nil
	a.locker.reportCall(t.caller, OpTry, &a.claim, asked.Mono, nil) // after granted: the observer may be slow
	switch {
	case lock != nil || errors.As(err, new(unfitError)):
		return lock, err
	case err == nil:
		err = errSlow
	}
	return nil, a.noAnswer(t, err)
}

// noAnswer is called after a try without a usable answer. It returns nil if the caller has to try
// again, and otherwise the error of the acquire.
func (a *acquisition) noAnswer(t callTime, err error) error {
	if err := a.failed(t, err); err != nil {
		return err
	}
	if a.claim.Indeterminate { // the store may have granted it: the other heads of the queue would then wait for this claim
		return nil
	}
	_, err = a.goBack(t) // one head is enough to ask a store that fails
	return err
}

// try makes one attempt. The attempt ends when ctx ends, or after retry.TryTimeout. The first
// attempt of a call with a wait limit ends with that limit, but may take the time of a round
// trip even if the limit is shorter.
func (a *acquisition) try(ctx context.Context) (driver.Outcome, error) {
	limit := retry.TryTimeout(a.claim.TTL, int(a.denial.failures))
	var wait time.Duration
	if a.tries == 0 && limited(a.req.wait) {
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

// On a store without tombstones, a try that is cut off may be executed after the release that
// follows it. If that try gets a grant, nothing releases it. So no caller's context cuts off a
// try on such a store: the try runs detached, in its own goroutine and under its own context.
// If the caller gives up, the try goes on, and the claim is released when the try has ended.

// tryDetached makes one attempt that goes on if ctx ends. If `wait` is not 0, tryDetached
// returns after that time at the latest.
func (a *acquisition) tryDetached(ctx context.Context, wait time.Duration) (driver.Outcome, error) {
	if !a.awaitDetached(ctx) {
		return driver.Outcome{}, ctx.Err()
	}
	if wait > 0 {
		bound := deadline.New(ctx, time.Now().Add(wait))
		defer bound.End()
		ctx = bound
	}
	c := a.claim
	backend := a.locker.backend
	answer, try := callDetached(ctx, a.locker, retry.TryTimeout(c.TTL, int(a.denial.failures)), func(ctx context.Context) (got driver.Attempt) {
		got.Outcome, got.Err = backend.Try(ctx, c)
		return got
	}, maybeSent)
	if a.detached = try; try != nil {
		return driver.Outcome{}, ctx.Err()
	}
	return answer.Outcome, answer.Err
}

// awaitDetached waits until the detached try has returned, because only one try of a claim may
// run at a time. It returns false if ctx ends first.
func (a *acquisition) awaitDetached(ctx context.Context) bool {
	if a.detached == nil {
		return true
	}
	select {
	case <-a.detached.done:
		a.detached = nil
		return true
	case <-ctx.Done():
		return false
	}
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
		a.denial.cameLate(start.Mono)
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
	margin := a.margin(out.ValidFor)
	switch {
	case a.locker.marginChosen && !renewable(out.ValidFor, margin): // a try may find a longer lease, see leaseThatFits
		return nil
	case a.tooLate(a.asked, out, margin):
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

// margin returns the margin of the lease that the store has granted to the claim, for the time
// `validFor`.
func (a *acquisition) margin(validFor time.Duration) time.Duration {
	margin := a.locker.marginOf(validFor)
	if a.req.leased {
		margin = min(margin, a.req.lease/10)
	}
	return margin
}

// unfitError is the error if the store grants leases that are too short for the margin.
type unfitError string

func (e unfitError) Error() string { return string(e) }

// leaseThatFits returns the lease of a grant: its start, and for how long it is valid. If a grant
// that is valid for the time validFor is too short for the margin that the user chose,
// leaseThatFits renews the claim to find out how long a lease the store grants: with sessions, a
// grant may have only the rest of a session. If that lease is too short, too, it returns an error
// of the type unfitError, because no later try would get more. If the renewal fails, it returns the error
// of the renewal, and the claim has to be tried again.
func (a *acquisition) leaseThatFits(ctx context.Context, validFor time.Duration) (start clock.Moment, _ time.Duration, err error) {
	margin := a.margin(validFor)
	if !a.locker.marginChosen || renewable(validFor, margin) {
		return a.asked, validFor, nil
	}
	start = a.locker.clock.Read()
	call := deadline.New(ctx, time.Now().Add(retry.Timeout(a.claim.TTL, 0)))
	defer call.End()
	answers, err := a.locker.backend.Renew(call, []driver.Claim{a.claim})
	switch {
	case err != nil:
		return start, 0, err
	case len(answers) != 1:
		return start, 0, retry.ErrNoAnswer
	case answers[0].Err != nil:
		return start, 0, answers[0].Err
	}
	if validFor = answers[0].ValidFor; !renewable(validFor, a.margin(validFor)) {
		return start, 0, unfitError(fmt.Sprintf("lock %q: a margin of %s leaves no time to renew a lease of %s, which %s grants instead of %s; "+
			"choose a margin of less than %s, or none",
			a.claim.Name, margin, validFor.Round(time.Millisecond), a.locker.info.Name, a.locker.ttl, renewLimit(validFor)))
	}
	return start, validFor, nil
}

// renewable reports whether there is time to renew a lease that lasts for the time `validFor`.
// The renewal is due after a third of the lease, and has to come before the margin begins.
func renewable(validFor, margin time.Duration) bool { return margin < validFor-validFor/3 }

// renewLimit returns the limit for the margin of a lease that lasts for the time `validFor`,
// rounded down for the text of an error. A margin below the limit leaves time to renew the
// lease.
func renewLimit(validFor time.Duration) time.Duration {
	return (validFor - validFor/3).Truncate(time.Millisecond)
}

// hold makes a hold of a lease that began at the time `start`.
func (a *acquisition) hold(start clock.Moment, out driver.Outcome, margin time.Duration) *Lock {
	l := newLease(a.room.newLease(), &a.claim, &a.req, grant{
		locker: a.locker, kind: a.kind, passes: a.acceptsHandoff(),
		start: start, out: out, margin: margin,
	})
	lock := a.room.newLock(&l.first)
	a.leaveQueued()
	a.holdPlace(l)
	a.locker.renewals.Add(l, start, l.ends-start.Mono, l.fixed)
	a.locker.reports.start()
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
			s.planYield(seenGrant{
				began: l.first.began, handoffFor: a.locker.handoff.For,
				metOther: a.metOther, yielded: a.yield.until != 0, passes: a.acceptsHandoff(),
			})
			unused = s.keepSpare(a.waiter, waiters)
			s.recordAnswer(l.first.began, nil)
		})
		closeWaiter(unused)
	default:
		a.admit()
	}
	a.place = nil
}

// notePermits logs once if the semaphore has another number of permits than the program says.
// For example, somebody may have changed the number in the program, and expect that this
// changes the semaphore.
func (a *acquisition) notePermits(out driver.Outcome) {
	l := a.locker
	all := out.Permits
	if all == 0 || all == a.claim.Permits {
		return
	}
	a.permits = all
	before, _ := l.permits.Swap(a.claim.Name, all)
	if before != any(all) {
		l.log.Warn("the semaphore in the store has another number of permits than this program describes; Resize changes it",
			"lock", a.claim.Name, "backend", l.info.Name, "permits", all, "described", a.claim.Permits)
	}
}

// foundBusy records an answer of the store that the lock is busy.
func (a *acquisition) foundBusy(out driver.Outcome) {
	a.denial.foundBusy(out, a.asked.Mono, a.locker.clock.Now())
	a.queued = a.queued || out.Queued
}

// waitForHolder records that another client has the lock, and sleeps until another try may
// succeed. Each sleep is bounded, because a notification of the store may be lost. waitForHolder
// returns the grant that the store sent during the sleep, or the zero Outcome if it sent none. It
// returns an error if the caller does not wait, or if the caller's time is over.
func (a *acquisition) waitForHolder(t callTime, out driver.Outcome) (meanwhile driver.Outcome, err error) {
	a.foundBusy(out)
	a.metOther = true
	a.owesWake = false // the other holder notifies when it releases
	a.claim.Quiet = false
	if a.place != nil {
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { s.recordAnswer(a.locker.clock.Now(), &out) })
	}
	if a.req.wait == 0 {
		return meanwhile, a.busy()
	}
	a.locker.reports.start()
	a.beginsToWait()
	a.locker.logWaiting(t.caller, a)
	a.reportWait(t.caller)
	if back, err := a.goBack(t); back {
		return meanwhile, err
	}
	if a.waiter == nil {
		defer closeWaiter(a.spareWaiter()) // after the sleep: until then its subscription is also that of the new Waiter
		a.waiter = a.locker.backend.Waiter(a.claim)
	}
	if out.Queued {
		a.keepQueued(t.limited)
	}
	meanwhile, woken := retry.Nap(a.queuedContext(t.limited), a.waiter, out, retry.SleepLimit(a.locker.info.Recheck, out.RetryAfter))
	if t.limited.Err() != nil {
		return meanwhile, a.outOfTime(t.caller)
	}
	a.reportWake(t.caller, woken)
	return meanwhile, nil
}

// ownRelease returns the last release of the claim's name by this Locker, if the store has not
// answered it yet; otherwise nil. Call it before the claim asks for the name: the answer to a
// later release does not explain a refusal.
func (a *acquisition) ownRelease() *sentRelease { return a.locker.releases.underWay(a.claim.Name) }

// busyBesideRelease records that the lock was busy while the release `own` of this Locker had no
// answer. It waits for that answer, and returns an error if the caller's time ends first.
//
// The claim keeps the duty to notify other clients after a quiet release: the store may have
// refused the claim because of that very release.
func (a *acquisition) busyBesideRelease(t callTime, own *sentRelease, out driver.Outcome) error {
	a.foundBusy(out)
	if !a.locker.releases.wait(t.limited, own) {
		return a.outOfTime(t.caller)
	}
	return nil
}

// queuedClaim is a claim that waits in a queue of a store with Info.SessionTTL. Such a store
// keeps the place of a client for as long as the client renews something. A client that only
// waits holds nothing, so the Locker's scheduler renews the claim.
type queuedClaim struct {
	locker *Locker
	claim  driver.Claim
	ctx    context.Context // derived from the caller's context; it also ends when the place in the queue is lost
	lost   context.CancelFunc
	entry  renew.Entry
}

// keepQueued starts to renew the claim's place in the queue of a store with sessions, unless
// these renewals have begun before.
func (a *acquisition) keepQueued(ctx context.Context) {
	l := a.locker
	switch {
	case l.info.SessionTTL == 0:
		return
	case a.inQueue != nil && a.inQueue.ctx.Err() == nil:
		return
	}
	a.leaveQueued()
	q := &queuedClaim{locker: l, claim: a.claim}
	q.ctx, q.lost = context.WithCancel(ctx)
	a.inQueue = q
	l.renewals.Add(q, l.clock.Read(), l.info.SessionTTL, false)
}

// leaveQueued ends the renewals of keepQueued.
func (a *acquisition) leaveQueued() {
	if q := a.inQueue; q != nil {
		q.locker.renewals.Remove(q)
		q.lost()
		a.inQueue = nil
	}
}

// queuedContext returns the context under which the claim waits for its next try. If keepQueued
// renews a place of the claim, that context also ends when the place is lost, so that the next
// try takes a new place. Otherwise the context is ctx.
func (a *acquisition) queuedContext(ctx context.Context) context.Context {
	if a.inQueue != nil {
		return a.inQueue.ctx
	}
	return ctx
}

// Entry returns what the scheduler keeps of the claim.
func (q *queuedClaim) Entry() *renew.Entry { return &q.entry }

// Until returns an instant that never comes: the waiter decides for how long it waits.
func (q *queuedClaim) Until() clock.Instant { return clock.Longest }

// Claim returns the claim.
func (q *queuedClaim) Claim(clock.Instant) driver.Claim { return q.claim }

// Answered records nothing, and returns a report with the error of the renewal. Its second
// result is false if the wait has ended or the place is lost.
func (q *queuedClaim) Answered(_ clock.Moment, answer driver.Renewal) (renew.Report, bool) {
	return renew.Report{Item: q, Err: answer.Err}, q.ctx.Err() == nil
}

// Gone wakes the waiter, whose next try takes a new place.
func (q *queuedClaim) Gone(_ error, report func()) {
	q.locker.renewals.Remove(q)
	q.locker.background.Go(report)
	q.lost()
}

// Expired does nothing, because the instant that Until returns never comes.
func (q *queuedClaim) Expired(error) {}

// failed decides what to do after a try without a usable answer: err is the error of the try, or
// errSlow. If the caller has to try again, failed returns nil after a pause. If the store does not
// have the claim any more, failed makes a new claim before it returns nil. If the caller must not
// try again, failed returns the error of the acquire.
func (a *acquisition) failed(t callTime, err error) error {
	now := a.locker.clock.Now()
	if errors.Is(err, errSlow) && a.denial.tooSlow(now, a.req.leased) {
		return fmt.Errorf("lock %q: %w: the answer took %s of a lease of %s, %d times in a row",
			a.claim.Name, errSlow, coarse(now-a.asked.Mono), a.claim.TTL, a.denial.late)
	}
	if !retry.Certain(err) {
		a.claim.Indeterminate = true
	}
	switch {
	case retry.Gone(err):
		a.replaceClaim()
	case retry.Final(err):
		return refusedBy(t.caller, a.claim.Name, err)
	case retry.Over(t.limited):
		a.denial.cutOff(err)
		return a.outOfTime(t.caller)
	}
	a.denial.failed(err)
	if a.place != nil {
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { s.lastErr = a.denial.err })
	}
	if a.req.wait == 0 && a.denial.failures >= retry.TryFailures {
		if t.caller.Err() == nil {
			err = retry.Unanswered(err)
		}
		return fmt.Errorf("lock %q: %w", a.claim.Name, err)
	}
	if !retry.Sleep(t.limited, retry.Delay(int(a.denial.failures), retry.DelayMost)) {
		return a.outOfTime(t.caller)
	}
	return nil
}

// behindOthers records why the call has no lock while it is behind other goroutines in the queue
// of this process.
func (a *acquisition) behindOthers() {
	a.denial.behind(a.locker, a.queueKey(), a.began, a.req.wait > 0)
}

func (a *acquisition) busy() *BusyError { return a.denial.busyError(a.claim.Name, a.locker) }

// outOfTime returns the error of an acquire when the caller's time is over.
func (a *acquisition) outOfTime(ctx context.Context) error {
	return a.denial.outOfTime(ctx, a.claim.Name, a.req.wait, a.locker)
}

// giveUp ends an acquisition without a lock. It ends the claim's place in the queue of this
// process. If the store may have the claim, as a hold or in its queue, giveUp releases the
// claim in the background, and sets the field a.removed. awaitRemoval waits for that release.
func (a *acquisition) giveUp() {
	a.leaveQueued()
	closeWaiter(a.waiter)
	if a.place != nil {
		a.leave(a.place)
	}
	inStore := a.mayBeInStore()
	a.claim.Indeterminate = a.claim.Indeterminate || a.asking || a.detached != nil
	if a.detached == nil && !inStore {
		return
	}
	l := a.locker
	kept := a.keptFor()
	removed := make(chan struct{})
	a.removed = removed
	left := leftover{claim: a.claim, until: l.clock.Now() + kept, givenUp: true, removed: removed}
	if a.detached == nil {
		l.cleanUp(left)
		return
	}
	l.background.Begin()
	a.detached.onReturn(func(sent bool) {
		defer l.background.End()
		if sent || inStore {
			left.until = l.clock.Now() + kept
			l.cleanUp(left)
		} else {
			close(removed)
		}
	})
}

// mayBeInStore reports whether the store may have the claim: a try had no certain answer, or the
// store has put the claim into its queue, or has granted it in vain. It does not count a detached
// try, which reports at its end whether it was sent.
func (a *acquisition) mayBeInStore() bool {
	return a.claim.Indeterminate || a.asking || a.grantUnused || a.queued
}

// removalWait is how long a call that gives up waits until the store has removed its claim. A
// program often ends right after such a call. A claim that the store keeps then blocks a free name
// until the session or the lease of the dead program ends.
const removalWait = 25 * time.Millisecond

// awaitRemoval waits after giveUp until the store has removed the claim, or until the time
// `until`. After that the removal goes on in the background.
func (a *acquisition) awaitRemoval(until time.Time) {
	if a.removed == nil {
		return
	}
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	select {
	case <-a.removed:
	case <-limit.C:
	}
}

// leave ends a place in a queue. If a hold was passed on to the place, leave passes the hold on
// to the next waiter, or releases the hold if there is no waiter. If the last release was quiet
// and no goroutine is left that takes the name, leave notifies other clients.
func (a *acquisition) leave(p *place) {
	var unused driver.Waiter
	wake := false
	given, ok := p.Leave(func(s *queueState, n int) {
		unused = s.dropSpare(n)
		s.owesWake = s.owesWake || a.owesWake
		wake = s.takeWake(n)
	})
	closeWaiter(unused)
	if ok {
		given.decline()
	}
	if wake {
		a.locker.wake(driver.Claim{Name: a.claim.Name, Client: a.locker.id})
	}
}

// keptFor returns how long the store keeps the claim after the last try: as a hold, or as a
// place in the store's queue. For a place, keptFor adds the rest of the holder's lease to
// PlaceTTL, because other programs may count the time of a place from the end of that lease.
func (a *acquisition) keptFor() time.Duration {
	if !a.claim.Fair {
		return a.claim.TTL
	}
	return max(a.claim.TTL, a.denial.busy.RetryAfter+a.locker.info.PlaceTTL)
}

func (a *acquisition) report(ctx context.Context, lock *Lock, err error) {
	l := a.locker
	e := Event{
		Type: EventAcquire, Name: a.claim.Name, Kind: a.kind.String(),
		Waited: a.waited(), Attempts: int(a.tries), Blocked: a.waitReported, Err: err,
	}
	if lock != nil {
		e.Token = lock.Token()
		e.Owner = lock.hold.lease.owner
		e.Permits = a.permits
	}
	if err == nil && l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "acquired", "lock", e.Name, "backend", l.info.Name, "token", e.Token, "waited", e.Waited)
	}
	l.emit(ctx, e)
}

func (l *Locker) logWaiting(ctx context.Context, a *acquisition) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "waiting", "lock", a.claim.Name, "backend", l.info.Name,
			"holder", a.denial.busy.Holder, "lease", a.denial.busy.RetryAfter, "waited", a.waited())
	}
}

// reportWait reports that the acquisition waits. Only the first call for an acquisition has
// an effect.
func (a *acquisition) reportWait(ctx context.Context) {
	if a.waitReported {
		return
	}
	a.waitReported = true
	a.locker.emit(ctx, Event{Type: EventWait, Name: a.claim.Name, Kind: a.kind.String()})
}

func (a *acquisition) reportWake(ctx context.Context, notified bool) {
	a.locker.emit(ctx, Event{Type: EventWake, Name: a.claim.Name, Kind: a.kind.String(), Notified: notified})
}
