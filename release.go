package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Every release of a claim is here. There are three ways. Each ends the hold in this process, sends
// the release, repeats it while Unlock waits, and ends in unlockResult, which makes the error of
// the Unlock:
//
//	one lock       hold.unlock       finish, releaseInStore (sendRelease, repeatUnanswered)
//	AsyncUnlock    hold.unlockAsync  finish, startRelease; in the background finishRelease, repeatUnanswered
//	several locks  Locker.unlockAll  releaseAll: one call for all; then each without an answer by itself
//
// If the result is still not certain, Locker.cleanUp goes on in the background. It also releases
// the claims of callers that gave up, and of locks that were lost.
//
// Until the end of a release, the next goroutine of this process waits. It may ask the store as soon
// as the release is sent, if turns.planRelease says so (startRelease); else when the store has
// answered (releaseAnswered). The method endRelease lets it ask at the latest: a deferred call in
// each of the three ways covers errors, and panics of the store's code.

// unlockWait is how long Unlock waits for an answer. If the lease ends before that, Unlock
// returns when the lease ends.
const unlockWait = 3 * time.Second

// unlock ends the hold and releases it in the store. It uses `bound`, a Context that was not
// used before, for the release.
func (h *hold) unlock(bound *deadline.Context) error {
	if err := h.finish(); err != nil {
		return err
	}
	c := h.lease.releaseClaim(h.lease.locker.clock.Now())
	return h.unlockResult(c, h.lease.releaseInStore(bound, c))
}

// finish ends the hold and its renewals. It returns an error if the hold had ended before.
func (h *hold) finish() error {
	if err := h.state(); over(err) {
		return h.unlockEnded(err)
	}
	ended, contexts, err := h.lease.end(h, onUnlock, ErrUnlocked)
	cancelAll(contexts, err)
	if ended == nil {
		return h.unlockEnded(err)
	}
	h.lease.locker.renewals.Remove(h.lease)
	return nil
}

// unlockEnded is Unlock for a hold that has ended. The store may still keep the lease of a hold
// that was lost. In that case unlockEnded releases the lease, so that other clients get the
// lock sooner.
func (h *hold) unlockEnded(err error) error {
	l := h.lease
	var lost *LostError
	if !errors.As(err, &lost) {
		return fmt.Errorf("unlock %q: %w", l.name, err)
	}
	now := l.locker.clock.Now()
	until := l.droppedBy(now)
	if until > now && mayBeKept(lost.Reason) && l.move(onCleanUp) {
		l.locker.cleanUp(leftover{claim: l.claimAt(now), until: until})
	}
	return fmt.Errorf("unlock: %w", err)
}

// unlockBy returns when an Unlock that begins at the instant `now` has to return: at the end of
// the lease, but not before one round trip to a store that is near, and not after unlockWait.
func (l *lease) unlockBy(now clock.Instant) clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(max(l.ends, now+retry.TimeoutLeast), now+unlockWait)
}

// releaseClaim returns the claim for a release that is sent at the instant `now`.
func (l *lease) releaseClaim(now clock.Instant) driver.Claim {
	c := l.claimAt(now)
	c.AtLeast = remainingUntil(l.keptUntil, now)
	return c
}

// remainingUntil returns the time from the instant `now` to the instant `end`, or 0 if `end`
// has passed.
func remainingUntil(end, now clock.Instant) time.Duration { return max(end-now, 0) }

// releaseInStore releases the claim, and lets the next goroutine of this process ask the store.
// It repeats the release until the store has answered, or until Unlock has to return.
func (l *lease) releaseInStore(bound *deadline.Context, c driver.Claim) error {
	defer l.endRelease() // also if the store's code panics
	began := l.locker.clock.Now()
	until := l.boundFirstRelease(bound, c, began)
	defer bound.End()
	err := l.sendRelease(bound, c, began)
	return l.repeatUnanswered(bound, c, err, began, until)
}

// boundFirstRelease sets the end of `bound`, a Context that was not used before: the first call of
// a release that begins at the instant `began` has to return then. It returns until when the
// release may be repeated after that.
func (l *lease) boundFirstRelease(bound *deadline.Context, c driver.Claim, began clock.Instant) (until clock.Instant) {
	until = l.unlockBy(began)
	bound.Init(context.Background(), l.locker.clock.Time(min(until, began+retry.ReleaseTimeout(c.TTL, 0))))
	return until
}

// sendRelease makes the first call of a release. If the store reports how many other clients
// wait, sendRelease also lets the next goroutine of this process ask the store.
func (l *lease) sendRelease(ctx context.Context, c driver.Claim, began clock.Instant) error {
	store, ok := l.locker.backend.(driver.Releaser)
	if l.queue == nil || !ok {
		return l.locker.backend.Release(ctx, c)
	}
	direct, ok := store.(driver.QuietReleaser)
	if ok && !l.queue.Waits() {
		others, err := direct.ReleaseNow(ctx, c)
		l.releaseAnswered(others, err, began)
		return err
	}
	finish, wasQuiet := l.startRelease(ctx, store, c, began, false)
	return l.finishRelease(finish, wasQuiet, began)
}

// startRelease queues a release. If the last release found no other client that waits, the next
// goroutine of this process may ask the store right after this release was queued. Then its try
// usually follows the release in the same round trip. The same happens during a burst of this
// process, in which the release is quiet. Otherwise the next goroutine asks after the answer to
// the release, so that other clients that wait can go first. But if it is not known whether
// other clients wait, and `async` is true, the next goroutine also asks right after the release
// was queued.
//
// The store may get the try before the release. So startRelease adds the release to
// Locker.releases before a claim of this process can ask.
func (l *lease) startRelease(ctx context.Context, store driver.Releaser, c driver.Claim, began clock.Instant, async bool) (finish func() (int, error), quiet bool) {
	early := false
	waits := l.queue.Waits()
	if waits || async {
		_, mayBeQuiet := store.(driver.QuietReleaser)
		mayBeQuiet = mayBeQuiet && waits && c.AtLeast == 0 && l.kind == plain
		l.locker.queues.Do(l.queueKey(), func(_ *hold, s *queueState) {
			quiet, early = s.planRelease(began, mayBeQuiet, async)
			if early || async {
				l.sent = l.locker.releases.begin(l.name)
			}
		})
		c.Quiet = quiet
	}
	finish = store.StartRelease(ctx, c)
	if early {
		l.letNext()
	}
	return finish, quiet
}

// finishRelease waits for the answer to a release. It lets the next goroutine of this process
// ask the store, if startRelease has not done so.
func (l *lease) finishRelease(finish func() (int, error), quiet bool, began clock.Instant) error {
	others, err := finish()
	if !quiet {
		l.releaseAnswered(others, err, began)
	}
	return err
}

// releaseAnswered lets the next goroutine of this process ask the store, unless that was done
// before, and records `others`, the number of other clients that wait. It is called after the
// answer to a release that began at `began`. If err, the error of that release, is not nil, it does
// nothing.
func (l *lease) releaseAnswered(others int, err error, began clock.Instant) {
	if err != nil {
		return
	}
	if !l.letNextAfter(others, began) {
		l.locker.queues.Do(l.queueKey(), func(_ *hold, s *queueState) { s.others = others })
	}
}

// repeatUnanswered is called with the error of the first call of a release, which began at the
// instant `began`. It returns the result of the release. If the store has not answered, it repeats
// the release until the instant `until`.
func (l *lease) repeatUnanswered(ctx context.Context, c driver.Claim, err error, began, until clock.Instant) error {
	if isAnswer(err) {
		l.endRelease() // before reportCall, because the observer may be slow
	}
	l.locker.reportCall(ctx, OpRelease, &c, began, err)
	if isAnswer(err) {
		return err
	}
	return l.locker.retryReleaseUntil(c, l.keptUntil, err, until)
}

// isAnswer reports whether err is an answer of the store to a release.
func isAnswer(err error) bool { return err == nil || retry.Gone(err) }

// endRelease is called when the store has answered a release, or when Unlock does not repeat the
// release any more. It lets the next goroutine of this process ask the store, and lets the claims
// ask again that were refused while the release had no answer. Only its first call has an effect.
func (l *lease) endRelease() {
	l.letNext()
	l.locker.releases.end(l.name, l.sent)
}

// unlockResult returns the error of Unlock. The parameter err is the answer of the store to
// the release. If the answer is not certain, the release goes on in the background.
// unlockResult also reports the end of the hold.
func (h *hold) unlockResult(c driver.Claim, err error) error {
	l := h.lease
	switch {
	case err == nil:
	case retry.Gone(err):
		err = fmt.Errorf("unlock: %w", &LostError{Name: c.Name, Reason: retry.ReasonOf(err), Cause: err})
	case errors.Is(err, driver.ErrClosed): // the hold has ended, so nothing changes l.ends any more
		err = fmt.Errorf("unlock %q: not released; the lease ends in %s: %w", c.Name, coarse(max(l.ends-l.locker.clock.Now(), 0)), err)
	default:
		now := l.locker.clock.Now()
		until := l.droppedBy(now)
		if until <= now {
			err = fmt.Errorf("unlock %q: not confirmed; the lease has ended: %w", c.Name, err)
			break
		}
		l.locker.cleanUp(leftover{claim: c, keptUntil: l.keptUntil, first: err, until: until})
		err = fmt.Errorf("unlock %q: not confirmed, goes on in the background; the lease ends in %s: %w",
			c.Name, coarse(until-now), err)
	}
	h.report(err)
	return err
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
	c := l.releaseClaim(began)
	until := l.boundFirstRelease(bound, c, began)
	queued := false
	defer func() {
		if !queued { // the store's code has panicked
			l.endRelease()
		}
	}()
	finish, quiet := l.startRelease(bound, store, c, began, true)
	queued = true
	locker.background.Go(func() {
		err := func() error {
			defer l.endRelease() // also if the store's code panics
			err := l.finishRelease(finish, quiet, began)
			bound.End()
			return l.repeatUnanswered(context.Background(), c, err, began, until)
		}()
		_ = h.unlockResult(c, err)
	})
	return nil
}

// releaseAll releases the claims of holds that have ended, in one call. The call begins at the
// instant `now` and ends at the instant `until`. It uses ctx, a Context that was not used before.
// releaseAll returns the errors of the releases that failed.
func (l *Locker) releaseAll(ctx *deadline.Context, released []*hold, claims []driver.Claim, now, until clock.Instant) (errs []error) {
	defer func() { // also if the store's code panics
		for _, h := range released {
			h.lease.endRelease()
		}
	}()
	ctx.Init(context.Background(), l.clock.Time(min(until, now+retry.ReleaseTimeout(l.ttl, 0)))) // one call for locks of any TTL
	defer ctx.End()
	answers := l.backend.(driver.Batcher).ReleaseAll(ctx, claims) //nolint:forcetypeassert // inBatch has checked
	for len(answers) < len(released) {
		answers = append(answers, retry.ErrNoAnswer)
	}
	for i, h := range released { // first the holds with an answer: goroutines wait for them
		if isAnswer(answers[i]) {
			h.lease.endRelease()
		}
	}
	retried := func() []error { return nil }
	if slices.ContainsFunc(answers, func(err error) bool { return !isAnswer(err) }) {
		retried = l.retryReleases(released, claims, answers, now)
	}
	for i, h := range released {
		l.reportCall(ctx, OpRelease, &claims[i], now, answers[i])
		if !isAnswer(answers[i]) {
			continue
		}
		if err := h.unlockResult(claims[i], answers[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return append(errs, retried()...)
}

// retryReleases repeats, in the background, the releases of a releaseAll that have no answer. The
// returned function waits for them, and returns the errors of the releases that failed.
func (l *Locker) retryReleases(released []*hold, claims []driver.Claim, answers []error, now clock.Instant) (wait func() []error) {
	errs := make([]error, len(released))
	var all sync.WaitGroup
	for i, h := range released {
		if isAnswer(answers[i]) {
			continue
		}
		all.Go(func() {
			err := l.retryReleaseUntil(claims[i], h.lease.keptUntil, answers[i], h.lease.unlockBy(now))
			h.lease.endRelease() // before the releases of the other locks have an answer
			errs[i] = h.unlockResult(claims[i], err)
		})
	}
	return func() []error {
		all.Wait()
		return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	}
}

// leftover is a claim that a clean-up releases.
type leftover struct {
	claim     driver.Claim
	keptUntil clock.Instant   // the name stays taken until then; 0 if the release frees the name
	first     error           // the error of the first release; nil if no release was sent yet
	until     clock.Instant   // when the store has dropped the claim by itself
	givenUp   bool            // the claim is that of a caller that has given up, so nothing has reported yet what came of a try without an answer
	removed   chan<- struct{} // closed at the end of the clean-up; may be nil
}

// cleanUp releases a claim in the background. It repeats the release until the result is certain,
// or until the store has dropped the claim by itself. It never uses a caller's context, which has
// often ended when a clean-up is due.
func (l *Locker) cleanUp(left leftover) {
	l.cleaner.Go(func(waited bool) {
		if left.removed != nil {
			defer close(left.removed)
		}
		c := left.claim
		if waited { // the time may be over already, but one attempt is always made
			left.until = max(left.until, l.clock.Now()+retry.ReleaseTimeout(c.TTL, 0))
		}
		ctx, cancel := context.WithDeadline(context.Background(), l.clock.Time(left.until))
		defer cancel()
		tryUnresolved := left.givenUp && c.Indeterminate
		err := l.retryRelease(ctx, c, left.keptUntil, left.first, tryUnresolved)
		settled := isAnswer(err)
		switch {
		case tryUnresolved:
			l.reportIndeterminate(OpTry, &c, settled)
		case !settled && !retry.Certain(err):
			l.reportIndeterminate(OpRelease, &c, false)
		}
		if !settled {
			l.log.Warn("clean-up not confirmed; the store drops the claim when its lease ends",
				"lock", c.Name, "backend", l.info.Name, "lease", c.TTL, "err", err)
		}
	})
}

// retryReleaseUntil is retryRelease for an Unlock whose first call failed with err. It ends
// at the instant `until`, when the Unlock has to return.
func (l *Locker) retryReleaseUntil(c driver.Claim, kept clock.Instant, err error, until clock.Instant) error {
	ctx, cancel := context.WithDeadline(context.Background(), l.clock.Time(until))
	defer cancel()
	return l.retryRelease(ctx, c, kept, err, false)
}

// retryRelease repeats a release until its result is certain or ctx ends. The parameter `first`
// is the error of the first release; nil if no release was sent yet. The name stays taken until
// the instant `kept`; 0 means that the release frees the name. retryRelease returns nil if the
// claim was released, also if an earlier call without an answer released it. It returns an
// error that is driver.ErrGone if there was nothing to release, and otherwise the last error. It
// reports what came of releases without an answer, unless tryUnresolved is true: then cleanUp
// reports what came of the try.
func (l *Locker) retryRelease(ctx context.Context, c driver.Claim, kept clock.Instant, first error, tryUnresolved bool) (err error) {
	// The claim of a caller that gives up may be quiet, but no try of this process follows.
	c.Quiet = false
	mayBeDone := first != nil && !retry.Certain(first) // an earlier call without an answer may have released the claim
	defer func() {
		if mayBeDone && !tryUnresolved && isAnswer(err) {
			l.reportIndeterminate(OpRelease, &c, true)
		}
	}()
	if errors.Is(first, driver.ErrClosed) {
		return first // every later call would return the same error
	}
	err = ctx.Err() // the result if the loop makes no call
	var loop retry.Loop
	if first != nil {
		err = first
		loop.Failed(first)
	}
	for loop.Next(ctx) {
		c.AtLeast = remainingUntil(kept, l.clock.Now())
		err = l.release(ctx, c, loop.Failures())
		if err == nil || mayBeDone && retry.Gone(err) {
			return nil
		}
		if retry.Gone(err) || errors.Is(err, driver.ErrClosed) {
			return err
		}
		mayBeDone = mayBeDone || !retry.Certain(err)
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

// droppedBy returns the instant at which the store has dropped the claim by itself. Until then a
// release has to be repeated that is due at the instant `now`.
func (l *lease) droppedBy(now clock.Instant) clock.Instant {
	if session := l.locker.info.SessionTTL; session > 0 {
		return now + session
	}
	return l.latestEnd()
}

// releaseSession releases the claim of a lease that ended without an Unlock, if the store would
// keep the claim without a release. It waits for the end of the lease, because the holder may
// use the rest of it to stop. An Unlock in the meantime releases the claim at once.
func (l *lease) releaseSession() {
	session := l.locker.info.SessionTTL
	if session == 0 {
		return
	}
	l.locker.background.Go(func() {
		l.mu.Lock()
		rest := l.ends - l.locker.clock.Now()
		l.mu.Unlock()
		time.Sleep(min(rest, session))
		now := l.locker.clock.Now()
		if l.move(onCleanUp) {
			l.locker.cleanUp(leftover{claim: l.claimAt(now), until: l.droppedBy(now)})
		}
	})
}

// letNext lets the next goroutine of this process ask the store for the name, after the lease
// has ended. Only the first call for a lease has an effect.
func (l *lease) letNext() {
	if l.queue != nil {
		l.letNextAfter(unanswered, 0)
	}
}

// unanswered takes the place of the number of other clients that wait, if the store has not
// answered the release.
const unanswered = -2

// letNextAfter is letNext for the answer to a release that began at `began`, after which this
// process may yield to other clients. The parameter `others` is how many of them wait, the constant
// `unknown`, or the constant `unanswered`. letNextAfter returns false, and changes nothing, if an
// earlier call has let the next goroutine ask.
func (l *lease) letNextAfter(others int, began clock.Instant) bool {
	h, handoffs, ok := l.open()
	if !ok { // checked first without the mutex that all goroutines share
		return false
	}
	var unused driver.Waiter
	wake := false
	l.queue.Next(h, func(s *queueState, waiters int) {
		s.handoffs = handoffs
		s.yield = yield{othersWait: s.others > 0}
		if others != unanswered {
			s.others = others
			s.yield.othersWait = others > 0
			if others != 0 { // 0 is the usual case, which need not read the clock
				s.yield.until = s.yieldUntil(l.locker.clock.Now(), began)
			}
		}
		wake = s.takeWake(waiters)
		if waiters == 0 && s.yield.until != 0 {
			l.locker.rememberYieldLocked(l.queueKey(), s.yield)
		}
		unused = s.dropSpare(waiters)
	})
	closeWaiter(unused)
	if wake {
		l.locker.wake(l.claimAt(l.locker.clock.Now()))
	}
	return true
}

// open records that the next goroutine of this process may ask. It returns the hold that
// ended, and for how many hand-offs the next claim reserves tokens. The result `ok` is false if
// an earlier call has opened the lease: see leaseOpen.
func (l *lease) open() (h *hold, handoffs int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.moveLocked(onLetNext) {
		return nil, 0, false
	}
	used := int32(l.holder.token - l.first.token) // 0 in a store without tokens, which need not reserve any
	return l.holder, l.locker.handoff.blockSize(used, l.handoffsLeft), true
}
