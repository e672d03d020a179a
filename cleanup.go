package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// cleanersMost bounds the releases and notifications of a Locker that run in the background at once.
// Thousands of callers may give up in the same moment. A goroutine for each of them would only
// send thousands of calls to the store at once.
const cleanersMost = 32

// removalWait is how long a call that gives up waits until the store has removed its claim. A
// program often ends right after such a call. A claim that the store keeps then blocks a free name
// until the session or the lease of the dead program ends.
const removalWait = 25 * time.Millisecond

// Drain waits until the Locker has no work in the background any more, and then returns nil.
// Call it before the program ends. The work in the background is:
//
//   - the releases that Options.AsyncUnlock has queued;
//   - the release of a lock, after the store did not answer an Unlock;
//   - the removal of a claim whose call of Lock was cancelled, if the store has not removed it
//     25 ms after the end of the call's context;
//   - the notification of other clients, if nobody takes a lock that this process has released.
//
// If a program ends without Drain, such a lock stays taken until its lease ends, and a claim in a
// queue of the store blocks later claims until the store drops it: on etcd and ZooKeeper when
// the session ends. Each release takes one TTL at most. But the release for a waiter of a fair
// lock may take as long as the store keeps the waiter's place. If ctx ends first, Drain returns
// ctx's error. Drain does not wait for held locks. When Drain returns nil, every loss so far has
// been reported to Options.Observe and to the Logger.
func (l *Locker) Drain(ctx context.Context) error {
	if err := l.background.Wait(ctx); err != nil {
		return err
	}
	if store, ok := l.backend.(driver.Drainer); ok {
		return store.Drain(ctx)
	}
	return nil
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
	known := a.claim.Indeterminate || a.asking || a.grantUnused || a.queued // the store may know the claim
	a.claim.Indeterminate = a.claim.Indeterminate || a.asking || a.detached != nil
	if a.detached == nil && !known {
		return
	}
	l, c, kept, removed := a.locker, a.claim, a.keptFor(), make(chan struct{})
	a.removed = removed
	if a.detached == nil {
		l.cleanUp(c, 0, nil, l.clock.Now()+kept, removed)
		return
	}
	l.background.Begin()
	a.detached.onReturn(func(sent bool) {
		defer l.background.End()
		if sent || known {
			l.cleanUp(c, 0, nil, l.clock.Now()+kept, removed)
		} else {
			close(removed)
		}
	})
}

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
		wake = s.mustWake(n)
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
	return max(a.claim.TTL, a.last.RetryAfter+a.locker.info.PlaceTTL)
}

// retryReleaseUntil is retryRelease for an Unlock whose first call failed with err. It ends
// at the instant `until`, when the Unlock has to return.
func (l *Locker) retryReleaseUntil(c driver.Claim, kept clock.Instant, err error, until clock.Instant) error {
	ctx, cancel := context.WithDeadline(context.Background(), l.clock.Time(until))
	defer cancel()
	return l.retryRelease(ctx, c, kept, err)
}

// retryReleases repeats, in the background, the releases of a releaseAll that have no answer. The
// returned function waits for them, and returns their errors by the index in claims.
func (l *Locker) retryReleases(ks Locks, ended []int, claims []driver.Claim, answers []error, now clock.Instant) (wait func() []error) {
	errs := make([]error, len(answers))
	var all sync.WaitGroup
	for j, i := range ended {
		if err := answers[j]; !answered(err) {
			h := ks[i].hold
			all.Go(func() {
				errs[j] = h.releaseResult(claims[j], l.retryReleaseUntil(claims[j], h.lease.keptUntil, err, h.lease.unlockBy(now)))
			})
		}
	}
	return func() []error {
		all.Wait()
		return errs
	}
}

// cleanUp releases a claim in the background. The parameter `first` is the error of the first
// release; nil if no release was sent yet. The comment of retryRelease explains `kept`. cleanUp
// repeats the release until the result is certain, or until the instant `until`, when the store
// has dropped the claim by itself. It closes the channel `done` at its end, if that is not nil.
// It never uses a caller's context, which has often ended when a clean-up is due.
func (l *Locker) cleanUp(c driver.Claim, kept clock.Instant, first error, until clock.Instant, done chan<- struct{}) {
	l.cleaner.Go(func(waited bool) {
		if done != nil {
			defer close(done)
		}
		if waited { // the time may be over already, but one attempt is always made
			until = max(until, l.clock.Now()+retry.ReleaseTimeout(c.TTL, 0))
		}
		ctx, cancel := context.WithDeadline(context.Background(), l.clock.Time(until))
		defer cancel()
		err := l.retryRelease(ctx, c, kept, first)
		switch settled := err == nil || retry.Gone(err); {
		case c.Indeterminate:
			l.reportIndeterminate(OpTry, &c, settled)
		case !settled && !retry.Certain(err):
			l.reportIndeterminate(OpRelease, &c, false)
		}
		if err != nil && !retry.Gone(err) {
			l.log.Warn("clean-up not confirmed; the store drops the claim when its lease ends",
				"lock", c.Name, "backend", l.info.Name, "lease", c.TTL, "err", err)
		}
	})
}

// retryRelease repeats a release until its result is certain or ctx ends. The parameter `first`
// is the error of the first release; nil if no release was sent yet. The name stays taken until
// the instant `kept`; 0 means that the release frees the name. retryRelease returns nil if the
// claim was released, also if an earlier call without an answer released it. It returns an
// error that is driver.ErrGone if there was nothing to release, and otherwise the last error.
func (l *Locker) retryRelease(ctx context.Context, c driver.Claim, kept clock.Instant, first error) (err error) {
	c.Quiet = false // the claim of a caller that gives up may be quiet, and no try of this process follows
	indeterminate := first != nil && !retry.Certain(first)
	defer func() {
		if indeterminate && !c.Indeterminate && (err == nil || retry.Gone(err)) {
			l.reportIndeterminate(OpRelease, &c, true) // if c.Indeterminate is set, cleanUp reports the result when it stops
		}
	}()
	if errors.Is(first, driver.ErrClosed) {
		return first // every later call would return the same error
	}
	var loop retry.Loop
	if err = ctx.Err(); first != nil {
		err = first
		loop.Failed(first)
	}
	for loop.Next(ctx) {
		c.AtLeast = remainingUntil(kept, l.clock.Now())
		err = l.release(ctx, c, loop.Failures())
		if err == nil || indeterminate && retry.Gone(err) {
			return nil
		}
		if retry.Gone(err) || errors.Is(err, driver.ErrClosed) {
			return err
		}
		indeterminate = indeterminate || !retry.Certain(err)
		loop.Failed(err)
	}
	return err
}

func (l *Locker) release(ctx context.Context, c driver.Claim, failures int) error {
	attempt := deadline.New(ctx, time.Now().Add(retry.ReleaseTimeout(c.TTL, failures)))
	defer attempt.End()
	began := l.clock.Now()
	err := l.backend.Release(attempt, c)
	l.reportCall(ctx, OpRelease, &c, began, err)
	return err
}

// mayBeKept reports whether the store may still have a lease that was lost for this reason.
// That is so if the store was not asked, if it refused the renewals, or if it did not answer.
func mayBeKept(reason driver.Reason) bool {
	return reason == driver.ReasonUnreachable || reason == driver.ReasonExpired || reason == driver.ReasonRefused
}

// A store with Info.SessionTTL keeps all claims of a client for as long as the client renews
// any of them. So a lease without renewals does not end by itself there: it has to be
// released.

// releaseUntil returns the instant until which a release has to be repeated. The release is due
// at the instant `now`. After the returned instant the store has dropped the claim by itself.
func (l *lease) releaseUntil(now clock.Instant) clock.Instant {
	if session := l.locker.info.SessionTTL; session > 0 {
		return now + session
	}
	return l.latestEnd()
}

// releaseSession releases the claim of a lease that ended without an Unlock, if the store would
// keep the claim without a release. It waits for the end of the lease, because the holder may
// use the rest of it to stop. An Unlock in the meantime releases the claim at once.
func (l *lease) releaseSession(reason driver.Reason) {
	session := l.locker.info.SessionTTL
	if session == 0 || !mayBeKept(reason) {
		return
	}
	l.locker.background.Go(func() {
		l.mu.Lock()
		rest := l.ends - l.locker.clock.Now()
		l.mu.Unlock()
		time.Sleep(min(rest, session))
		if now := l.locker.clock.Now(); l.step(onCleanUp) {
			l.locker.cleanUp(l.claim(now), 0, nil, l.releaseUntil(now), nil)
		}
	})
}

// unlockAsync is unlock with Options.AsyncUnlock: it returns when the release is queued. The rest
// happens in the background.
func (h *hold) unlockAsync(bound *deadline.Context) error {
	l := h.lease
	store, ok := l.locker.backend.(driver.Releaser)
	if l.queue == nil || !ok || l.keptUntil != 0 {
		return h.unlock(bound)
	}
	if err := h.finish(); err != nil {
		return err
	}
	locker := l.locker
	began := locker.clock.Now()
	c, until := l.releaseClaim(began), l.unlockBy(began)
	bound.Init(context.Background(), locker.clock.Time(min(until, began+retry.ReleaseTimeout(c.TTL, 0))))
	queued := false
	defer func() {
		if !queued { // the store's code has panicked
			l.releaseOver()
		}
	}()
	finish, quiet := l.startRelease(bound, store, c, began, true)
	queued = true
	locker.background.Go(func() {
		err := func() error {
			defer l.releaseOver() // also if the store's code panics
			err := l.finishRelease(finish, quiet, began)
			bound.End()
			return l.afterFirstRelease(context.Background(), c, err, began, until)
		}()
		_ = h.releaseResult(c, err)
	})
	return nil
}
