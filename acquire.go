package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// acquisition is one claim on its way from the first try to a hold.
type acquisition struct {
	locker *Locker
	req    request
	claim  driver.Claim

	began   clock.Instant
	place   *place // nil while the claim stands in no queue of this process
	turns   int    // how often its lease may be passed on: only if it had to wait, as others may then
	start   start  // of clients elsewhere
	given   *hold  // what another goroutine of this process passed on; nil if nothing
	waiter  driver.Waiter
	inQueue *queuedClaim // its place in the queue of a store with sessions; nil if none
	asked   clock.Moment // the start of the last try
	left    *leftTry     // a try that goes on without the caller; nil if none does

	last    driver.Outcome // the last answer that was "busy"
	lastErr error          // the last failure
	permits int            // of the semaphore in all, if they are not those of the claim

	lateFrom clock.Instant // the start of the first try of those that late counts

	tries    int32
	failures int32 // in a row, without an answer
	late     int32 // grants in a row that came when most of their lease was over

	kind     kind
	answered bool // last is an answer
	held     bool // the claim was granted, but is not kept
	queued   bool // the store keeps a place for the claim
	blocked  bool // it was said that it waits
	stayed   bool // it has waited for the store, for all heads of its queue
	asking   bool // a try is under way; also if it panicked
}

func (a *acquisition) init(l *Locker, name string, k kind, r request) {
	*a = acquisition{locker: l, kind: k, req: r}
	if r.wait != forever || l.observed(context.Background()) { // else nobody asks, and clocks are not cheap
		a.began = l.clock.Now()
	}
	a.claim.Name = name
}

// makeClaim completes the claim, for the first try.
func (a *acquisition) makeClaim() {
	owner, seq := a.locker.nextOwner()
	a.claim = driver.Claim{
		Name: a.claim.Name, Client: a.locker.id, Seq: seq, Owner: owner, Mode: a.kind.mode(),
		Permits: a.req.permits, Fair: a.kind == fair, ReadWrite: a.kind.readWrite(), Beside: a.req.beside,
		NoQueue: a.req.wait == 0,
		TTL:     a.locker.leaseTTL(&a.req), Count: 1, Tokens: 1, Note: a.req.note, Anonymous: a.locker.anonymous,
	}
	if a.place != nil && a.takesHolds() {
		a.claim.Tokens += min(a.turns, a.locker.handoff.Max)
	}
}

// replaceClaim makes a new claim in place of one that is gone: somebody has ended it by
// force, as the store had granted it in an answer that was lost. Its caller has done
// nothing wrong, and asks again.
func (a *acquisition) replaceClaim() {
	a.leavePlace()
	closeWaiter(a.waiter)
	a.waiter, a.queued = nil, false
	a.makeClaim()
}

// run waits for its turn in this process, then asks the store until the claim is
// granted or the caller's time is over.
func (a *acquisition) run(ctx context.Context) (*Lock, error) {
	waitCtx := ctx
	if a.req.wait != forever && a.req.wait > 0 {
		var cancel context.CancelFunc
		waitCtx, cancel = context.WithDeadline(ctx, a.locker.clock.Time(a.began+a.req.wait))
		defer cancel()
	}
	if err := a.queue(ctx, waitCtx); err != nil {
		return nil, err
	}
	if a.given != nil {
		return newLock(a.given), nil
	}
	var lock *Lock
	defer func() {
		if lock == nil { // also if the store's code panics
			a.giveUp()
		}
	}()
	a.makeClaim()
	if err := a.letOthersGo(ctx, waitCtx); err != nil {
		return nil, err
	}
	lock, err := a.ask(ctx, waitCtx)
	return lock, err
}

// queue takes a place in the queue of this process and waits for its turn. A
// fair claim queues in the store, and one that can be granted beside others asks
// at once, unless some wait already.
func (a *acquisition) queue(ctx, waitCtx context.Context) error {
	if a.alone() || !a.kind.exclusive() && a.tries == 0 && !a.locker.queues.Do(a.queueKey(), func(*hold, *queueState) {}) {
		return nil
	}
	for {
		p, head := a.enter()
		switch {
		case head:
			a.place = p
			return nil
		case p == nil:
			a.busyHere()
			return a.busy()
		}
		a.waitsAt(ctx, p)
		given, ok, err := p.Wait(waitCtx)
		switch {
		case err != nil:
			a.busyHere()
			leave(p)
			return a.outOfTime(ctx)
		case !ok:
			a.place = p
			a.turn()
			return nil
		case given.take():
			a.given = given
			return nil
		} // lost on the way here: back to the queue
	}
}

// enter takes a place in the queue, and says whether it is the head's. Where there is a
// queue, who does not wait gets none.
func (a *acquisition) enter() (p *place, head bool) {
	waits := a.req.wait != 0
	return a.locker.queues.Enter(a.queueKey(), waits, a.takesHolds(), func() queueState {
		if waits {
			a.start = a.locker.starts[a.queueKey()]
			delete(a.locker.starts, a.queueKey())
		}
		return queueState{turns: handoffFirst, others: unknown}
	})
}

// turn takes note of what was left to this head.
func (a *acquisition) turn() {
	a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) {
		a.turns, a.start = s.turns, s.start
		s.start = start{}
	})
}

// waitsAt says that the claim waits in the queue. An observer that panics must not
// leave a place there that nobody takes.
func (a *acquisition) waitsAt(ctx context.Context, p *place) {
	said := false
	defer func() {
		if !said {
			leave(p)
		}
	}()
	a.reportWait(ctx)
	said = true
}

// alone says that the claim waits for nobody of this process: a fair one has its
// place in the store, and one beside a hold of the same caller is waited for by
// those who stand in the queue.
func (a *acquisition) alone() bool { return a.kind == fair || a.req.beside != "" }

func (a *acquisition) queueKey() queueKey { return queueKey{a.claim.Name, a.kind} }

// ask is the loop of every lock: try; granted, hold; no answer, the same claim
// again; busy, wait.
func (a *acquisition) ask(ctx, waitCtx context.Context) (*Lock, error) {
	for {
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
			if out, misfit = a.fit(tryCtx, out); misfit == nil {
				lock = a.granted(a.asked, out)
			}
		}
		a.locker.reportCall(ctx, OpTry, &a.claim, a.asked.Mono, err)
		switch {
		case lock != nil:
			return lock, nil
		case misfit != nil:
			return nil, misfit
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
		if a.claim.Indeterminate { // it may be granted: in the queue it would be in its own way
			continue
		}
		if _, err := a.goBack(ctx, waitCtx); err != nil { // one is enough to ask a store in trouble
			return nil, err
		}
	}
}

// try makes one attempt, bounded by ctx and by what an answer is worth. However
// short the wait limit is, the first attempt gets time for a round trip.
func (a *acquisition) try(ctx context.Context) (driver.Outcome, error) {
	limit, wait := retry.TryTimeout(a.claim.TTL, int(a.failures)), time.Duration(0)
	if a.tries == 0 && a.req.wait > 0 && a.req.wait != forever {
		wait = max(a.began+a.req.wait-a.locker.clock.Now(), retry.TimeoutLeast)
		limit = min(limit, wait)
	}
	a.tries++
	if !a.locker.info.Caps.Tombstones {
		return a.tryApart(ctx, wait)
	}
	attempt := deadline.New(ctx, time.Now().Add(limit))
	defer attempt.End()
	return a.locker.backend.Try(attempt, a.claim)
}

// granted makes a hold of the claim. It returns nil if so much of the lease has
// passed on the way that the hold would be over soon; the claim is then tried
// once more, which extends it.
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
		a.locker.reportDoubt(OpTry, &a.claim, true)
	}
	return lock
}

// grantedMeanwhile makes a hold of what the store granted on its own while the
// claim waited. It returns nil if that is not so, or if the next try is to say:
// where that would extend the lease, or see to an earlier try without an answer.
func (a *acquisition) grantedMeanwhile(out driver.Outcome) *Lock {
	if !out.Granted || a.req.leased || a.claim.Indeterminate {
		return nil
	}
	out.ValidFor = min(out.ValidFor, clock.Longest)
	margin := min(a.locker.margin, out.ValidFor/10)
	switch {
	case a.tooLate(a.asked, out, margin):
		return nil
	case margin < a.locker.margin && a.locker.marginChosen: // the holder needs so long to stop
		return nil
	case a.locker.clock.Read().Suspended(a.asked, margin/2): // while it waited: only the store knows
		return nil
	}
	return a.hold(a.asked, out, margin)
}

// tooLate says that so much of a lease that began at start has passed that a hold
// of it would be over soon.
func (a *acquisition) tooLate(start clock.Moment, out driver.Outcome, margin time.Duration) bool {
	return start.Mono+out.ValidFor-margin-a.locker.clock.Now() < (out.ValidFor-margin)/2
}

// hold makes a hold of a lease that began at start.
func (a *acquisition) hold(start clock.Moment, out driver.Outcome, margin time.Duration) *Lock {
	l := newLease(a, start, start.Mono+out.ValidFor-margin, out)
	lock := newLock(&l.first)
	a.leavePlace()
	a.settleIn(l)
	a.locker.renewals.Add(l, start, l.ends-start.Mono, l.fixed)
	if a.kind == permit {
		a.notePermits(out)
	}
	return lock
}

// settleIn turns the place in the queue into that of a holder, or lets others in
// where the hold keeps nobody out.
func (a *acquisition) settleIn(l *lease) {
	switch {
	case a.place == nil:
		closeWaiter(a.waiter)
	case a.kind.exclusive():
		unused := a.waiter
		l.queue = a.place.Hold(&l.first, func(s *queueState, waiters int) {
			s.plan(l, a.tries > 1, a.start.until != 0)
			unused = s.leave(a.waiter, waiters)
			s.answered(l.countsFrom, nil)
		})
		closeWaiter(unused)
	default:
		a.admit()
	}
	a.place = nil
}

// wait sleeps until another try is worth while. Every sleep is capped: the
// store's message is a hint, and may get lost. It returns what the store granted
// meanwhile, the zero Outcome if it did not say so.
func (a *acquisition) wait(ctx, waitCtx context.Context, out driver.Outcome) (meanwhile driver.Outcome, err error) {
	a.failures, a.late, a.last, a.answered = 0, 0, out, true
	a.queued = a.queued || out.Queued
	if a.place != nil {
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { s.answered(a.locker.clock.Now(), &out) })
	}
	if a.req.wait == 0 {
		return meanwhile, a.busy()
	}
	a.locker.reports.start()
	a.locker.logWaiting(ctx, a)
	a.reportWait(ctx)
	if a.place == nil && !a.alone() && !a.queued {
		return meanwhile, a.queue(ctx, waitCtx)
	}
	if back, err := a.goBack(ctx, waitCtx); back {
		return meanwhile, err
	}
	if a.waiter == nil {
		defer closeWaiter(a.spareWaiter())
		a.waiter = a.locker.backend.Waiter(a.claim)
	}
	if out.Queued {
		a.keepPlace(waitCtx)
	}
	meanwhile, woken := retry.Nap(a.placeContext(waitCtx), a.waiter, out, retry.SleepLimit(a.locker.info.Recheck, out.RetryAfter))
	if waitCtx.Err() != nil {
		return meanwhile, a.outOfTime(ctx)
	}
	a.reportWake(ctx, woken)
	return meanwhile, nil
}

// spareWaiter returns the Waiter of the head before, if it left one.
func (a *acquisition) spareWaiter() (w driver.Waiter) {
	if a.place != nil {
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { w = s.takeSpare() })
	}
	return w
}

// leave gives a place in a queue up. What it was given meanwhile goes on to the next one.
func leave(p *place) {
	var unused driver.Waiter
	given, ok := p.Leave(func(s *queueState, n int) { unused = s.unused(n) })
	closeWaiter(unused)
	if ok {
		given.decline()
	}
}
