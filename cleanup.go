package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// cleanersMost is how many releases of a Locker are under way in the background at once:
// thousands of callers may give up in the same moment, and a store answers a release within
// a round trip.
const cleanersMost = 32

// Drain waits for the work of the Locker in the background, and returns nil: releases
// after a cancelled acquire without an answer, and after an Unlock without an answer. If
// a program ends without Drain, such a lock stays until its lease ends. Each of these
// releases takes one TTL at most, that of a waiter of a fair lock as long as its place
// lasts. If ctx ends first, Drain returns its error. Drain does not wait for held locks.
// When it returns nil, every loss so far has been reported to Options.Observe and to the
// Logger.
func (l *Locker) Drain(ctx context.Context) error {
	if err := l.background.Wait(ctx); err != nil {
		return err
	}
	if store, ok := l.backend.(driver.Drainer); ok {
		return store.Drain(ctx)
	}
	return nil
}

// giveUp leaves everything as if the claim had never been made.
func (a *acquisition) giveUp() {
	a.leavePlace()
	closeWaiter(a.waiter)
	if a.place != nil {
		leave(a.place)
	}
	known := a.claim.Indeterminate || a.asking || a.held || a.queued // to the store, perhaps
	a.claim.Indeterminate = a.claim.Indeterminate || a.asking || a.left != nil
	switch l, kept := a.locker, a.keptFor(); {
	case a.left != nil:
		c := a.claim
		l.background.Begin()
		a.left.then(func(sent bool) {
			defer l.background.End()
			if sent || known {
				l.cleanUp(c, 0, nil, l.clock.Now()+kept)
			}
		})
	case a.claim.Indeterminate || a.held || a.queued:
		l.cleanUp(a.claim, 0, nil, l.clock.Now()+kept)
	}
}

// keptFor is how long the store keeps the claim after the last try: as a hold, or in its
// queue. Other programs may count a place from the end of the holder's lease.
func (a *acquisition) keptFor() time.Duration {
	if !a.claim.Fair {
		return a.claim.TTL
	}
	return max(a.claim.TTL, a.last.RetryAfter+a.locker.info.PlaceTTL)
}

// settleFor goes on with a release whose first call ended with err, for as long
// as Unlock waits.
func (l *Locker) settleFor(c driver.Claim, kept clock.Instant, err error, until clock.Instant) error {
	ctx, cancel := context.WithDeadline(context.Background(), l.clock.Time(until))
	defer cancel()
	return l.settleAfter(ctx, c, kept, err)
}

// cleanUp releases a claim in the background, after a first release that ended with first,
// if that is not nil. It continues until the release is certain, or until the store has
// dropped the claim by itself, at the latest when the instant until has come. It never uses
// a caller's context, which has often ended when clean-up is due.
func (l *Locker) cleanUp(c driver.Claim, kept clock.Instant, first error, until clock.Instant) {
	l.cleaner.Go(func(waited bool) {
		if waited { // for others: one attempt is always made
			until = max(until, l.clock.Now()+retry.ReleaseTimeout(c.TTL, 0))
		}
		ctx, cancel := context.WithDeadline(context.Background(), l.clock.Time(until))
		defer cancel()
		err := l.settleAfter(ctx, c, kept, first)
		switch settled := err == nil || retry.Gone(err); {
		case c.Indeterminate:
			l.reportDoubt(OpTry, &c, settled)
		case !settled && !retry.Certain(err):
			l.reportDoubt(OpRelease, &c, false)
		}
		if err != nil && !retry.Gone(err) {
			l.log.Warn("clean-up not confirmed; the store drops the claim when its lease ends",
				"lock", c.Name, "backend", l.info.Name, "lease", c.TTL, "err", err)
		}
	})
}

// settleAfter calls Release until it is certain how it ended or ctx is done,
// after a first call that ended with first, if that is not nil. The name stays taken until
// kept, 0 if it does not. It returns nil if the claim was released, also by an earlier call whose answer was lost, and an
// error that is driver.ErrGone if there was nothing to release.
func (l *Locker) settleAfter(ctx context.Context, c driver.Claim, kept clock.Instant, first error) (err error) {
	doubt := first != nil && !retry.Certain(first)
	defer func() {
		if doubt && !c.Indeterminate && (err == nil || retry.Gone(err)) {
			l.reportDoubt(OpRelease, &c, true) // if it is not certain, cleanUp says so at its end
		}
	}()
	if errors.Is(first, driver.ErrClosed) {
		return first // as will be every later answer
	}
	var loop retry.Loop
	if err = ctx.Err(); first != nil {
		err = first
		loop.Failed(first)
	}
	for loop.Next(ctx) {
		c.AtLeast = rest(kept, l.clock.Now())
		err = l.release(ctx, c, loop.Failures())
		if err == nil || doubt && retry.Gone(err) {
			return nil
		}
		if retry.Gone(err) || errors.Is(err, driver.ErrClosed) {
			return err
		}
		doubt = doubt || !retry.Certain(err)
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

// mayBeKept says that the store may still keep a lock that was lost for this reason:
// nobody has asked it, or it has refused or not answered.
func mayBeKept(reason driver.Reason) bool {
	return reason == driver.ReasonUnreachable || reason == driver.ReasonExpired || reason == driver.ReasonRefused
}

// A store with Info.SessionTTL keeps all claims of a client for as long as it renews
// any of them: a lease that is not renewed any more does not end by itself. It has to
// be released.

// releasedBy is until when a release is worth while that is due now: until the store
// has dropped the claim by itself.
func (l *lease) releasedBy(now clock.Instant) clock.Instant {
	if session := l.locker.info.SessionTTL; session > 0 {
		return now + session
	}
	return l.latest()
}

// releaseSession releases the claim of a lease that ended without an Unlock, if the
// store would keep it otherwise. What is left of the lease is the holder's time to
// stop: the release waits for its end, or for an Unlock.
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
			l.locker.cleanUp(l.claim(now), 0, nil, l.releasedBy(now))
		}
	})
}
