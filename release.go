package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Every way in which a hold ends is in this file: its holder unlocks it, alone or with others;
// the lease is passed on; the goroutine to which it is passed on has given up; the lock is
// lost; the Lock is dropped. Releases that are repeated, or go on in the background, are in
// cleanup.go.

// unlockWait is how long Unlock waits for an answer. If the lease ends before that, Unlock
// returns when the lease ends.
const unlockWait = 3 * time.Second

// release ends the hold: it passes the lease on to the next goroutine, or releases it
// in the store. If `async` is true, it does not wait for the answer of the store.
func (k *Lock) release(async bool) error {
	k.stopNet()
	h := k.hold
	var err error
	switch {
	case k.owned == nil && h.passOn():
		h.report(nil)
	case async:
		err = h.unlockAsync(&k.releasing)
	default:
		err = h.unlock(&k.releasing)
	}
	runtime.KeepAlive(k)
	return err
}

// passOn passes the lease on to the next goroutine in the queue. It returns false, and
// changes nothing, if there is none, or if a limit of Handoff is reached.
func (h *hold) passOn() bool {
	l := h.lease
	if l.queue == nil {
		return false
	}
	var contexts map[*derived]struct{}
	return l.queue.Pass(h, func() (next *hold, ok bool) {
		next, contexts = l.replace(h)
		return next, next != nil
	}, func() { cancelAll(contexts, ErrUnlocked) })
}

// decline passes on or releases a hold whose receiver has given up.
func (h *hold) decline() {
	if !h.passOn() {
		h.lease.locker.background.Go(func() { _ = h.unlock(new(deadline.Context)) })
	}
}

// unlock ends the hold and releases it in the store. It uses `bound`, a Context that was not
// used before, for the release.
func (h *hold) unlock(bound *deadline.Context) error {
	if err := h.finish(); err != nil {
		return err
	}
	c := h.lease.releaseClaim(h.lease.locker.clock.Now())
	return h.releaseResult(c, h.lease.releaseInStore(bound, c))
}

// releaseClaim returns the claim for a release that is sent at the instant `now`.
func (l *lease) releaseClaim(now clock.Instant) driver.Claim {
	c := l.claim(now)
	c.AtLeast = remainingUntil(l.keptUntil, now)
	return c
}

// remainingUntil returns the time from the instant `now` to the instant `end`, or 0 if `end`
// has passed.
func remainingUntil(end, now clock.Instant) time.Duration { return max(end-now, 0) }

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

// releaseInStore releases the claim, and lets the next goroutine of this process ask the store.
// It repeats the release until the store has answered, or until Unlock has to return.
func (l *lease) releaseInStore(bound *deadline.Context, c driver.Claim) error {
	defer l.releaseOver() // also if the store's code panics
	began := l.locker.clock.Now()
	until := l.unlockBy(began)
	bound.Init(context.Background(), l.locker.clock.Time(min(until, began+retry.ReleaseTimeout(c.TTL, 0))))
	defer bound.End()
	return l.afterFirstRelease(bound, c, l.sendRelease(bound, c, began), began, until)
}

// afterFirstRelease is called with the error of the first call of a release, which began at the
// instant `began`. It returns the result of the release. If the store has not answered, it repeats
// the release until the instant `until`.
func (l *lease) afterFirstRelease(ctx context.Context, c driver.Claim, err error, began, until clock.Instant) error {
	if answered(err) {
		l.releaseOver()
	}
	l.locker.reportCall(ctx, OpRelease, &c, began, err)
	if answered(err) {
		return err
	}
	return l.locker.retryReleaseUntil(c, l.keptUntil, err, until)
}

// releaseOver is called when the store has answered a release, or when Unlock does not repeat the
// release any more. It lets the next goroutine of this process ask the store, and lets the claims
// ask again that were refused while the release had no answer. Only its first call has an effect.
func (l *lease) releaseOver() {
	l.letNext()
	l.locker.releases.end(l.name, l.sent)
}

// sendRelease makes the first call of a release. If the store reports how many other clients
// wait, sendRelease also lets the next goroutine of this process ask the store.
func (l *lease) sendRelease(ctx context.Context, c driver.Claim, began clock.Instant) error {
	store, ok := l.locker.backend.(driver.Releaser)
	if l.queue == nil || !ok {
		return l.locker.backend.Release(ctx, c)
	}
	if now, ok := store.(quietReleaser); ok && !l.queue.Waits() {
		others, err := now.ReleaseNow(ctx, c)
		l.released(others, err, began)
		return err
	}
	finish, quiet := l.startRelease(ctx, store, c, began, false)
	return l.finishRelease(finish, quiet, began)
}

// quietReleaser is a driver.Releaser with the two optional methods that the comment of
// driver.Releaser describes.
type quietReleaser interface {
	driver.Releaser
	ReleaseNow(ctx context.Context, c driver.Claim) (others int, err error)
	Wake(ctx context.Context, c driver.Claim) error
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
	others, waits, early := unknown, l.queue.Waits(), false
	if waits || async {
		_, mayBeQuiet := store.(quietReleaser)
		mayBeQuiet = mayBeQuiet && waits && c.AtLeast == 0 && l.kind == plain
		l.locker.queues.Do(queueKey{l.name, l.kind}, func(_ *hold, s *queueState) {
			others = s.others
			quiet = mayBeQuiet && others != 0 && began < s.burstUntil
			early = quiet || others == 0 || async && others == unknown
			if early || async {
				l.sent = l.locker.releases.begin(l.name)
			}
			s.owesWake = quiet
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
		l.released(others, err, began)
	}
	return err
}

// released lets the next goroutine of this process ask the store, unless that was done before,
// and records `others`, the number of other clients that wait. It is called after the answer to
// a release. If err, the error of that release, is not nil, it does nothing.
func (l *lease) released(others int, err error, began clock.Instant) {
	if err == nil && !l.letNextAfter(func(s *queueState) clock.Instant {
		s.others = others
		return l.locker.yieldUntil(others, began, s.yieldAt)
	}) {
		l.locker.queues.Do(queueKey{l.name, l.kind}, func(_ *hold, s *queueState) { s.others = others })
	}
}

// releaseResult returns the error of Unlock. The parameter err is the answer of the store to
// the release. If the answer is not certain, the release goes on in the background.
// releaseResult also reports the end of the hold.
func (h *hold) releaseResult(c driver.Claim, err error) error {
	l := h.lease
	switch {
	case err == nil:
	case retry.Gone(err):
		err = fmt.Errorf("unlock: %w", &LostError{Name: c.Name, Reason: retry.ReasonOf(err), Cause: err})
	case errors.Is(err, driver.ErrClosed):
		err = fmt.Errorf("unlock %q: not released; the lease ends in %s: %w", c.Name, coarse(max(l.ends-l.locker.clock.Now(), 0)), err)
	default:
		until := l.releaseUntil(l.locker.clock.Now())
		l.locker.cleanUp(c, l.keptUntil, err, until, nil)
		err = fmt.Errorf("unlock %q: not confirmed, goes on in the background; the lease ends in %s: %w",
			c.Name, coarse(max(until-l.locker.clock.Now(), 0)), err)
	}
	h.report(err)
	return err
}

// report reports the end of the hold, if the release failed, or if there is an observer or a
// log.
func (h *hold) report(err error) {
	if l := h.lease.locker; err != nil || l.observed(context.Background()) {
		l.reportRelease(h, err)
	}
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
	if until := l.releaseUntil(now); until > now && mayBeKept(lost.Reason) && l.step(onCleanUp) {
		l.locker.cleanUp(l.claim(now), 0, nil, until, nil)
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

// Gone ends a lease that the store does not have any more, or whose renewal panicked.
func (l *lease) Gone(err error, report func()) {
	reason := driver.ReasonUnreachable
	if retry.Gone(err) {
		reason = retry.ReasonOf(err)
	}
	_ = l.lose(reason, err, report)
}

// Expired ends a lease whose deadline has passed.
func (l *lease) Expired(last error) {
	_ = l.expire(last) // its Lock returns this error to the holder
}

// lose ends the lease of a lost lock, and returns the error with which the hold has ended. Only
// the first call ends the lease. lose calls the function `first` before it reports the loss. It
// sends no release, because the holder may use the rest of the lease to stop. But if the leases
// of the store do not end by themselves, the lease is released at its end.
func (l *lease) lose(reason driver.Reason, cause error, first func()) error {
	report := make(chan func(), 1)
	l.locker.background.Go(func() { (<-report)() }) // started first: if a caller sees the loss and calls Drain, that Drain waits for the report
	h, contexts, err := l.end(nil, onLoss, &LostError{Name: l.name, Reason: reason, Cause: cause})
	if h == nil {
		report <- func() {}
		return err
	}
	cancelAll(contexts, err)
	l.abandon(reason)
	report <- func() { // last: Drain waits for it, and so for what abandon started
		first()
		l.locker.reportLoss(h, reason, err)
	}
	return err
}

// expire ends a lease whose deadline has passed. The parameter `cause` is the last error since
// the last renewal that succeeded; nil if there was none.
func (l *lease) expire(cause error) error {
	reason := driver.ReasonUnreachable
	switch {
	case cause == nil || l.isFixed():
		reason = driver.ReasonExpired
	case errors.Is(cause, driver.ErrRefused) && !errors.Is(cause, driver.ErrClosed):
		reason = driver.ReasonRefused
	}
	return l.lose(reason, cause, func() {})
}

// dropped ends the hold when the user's Lock was garbage-collected without Unlock.
func (h *hold) dropped() {
	l := h.lease
	ended, contexts, _ := l.end(h, onLoss, ErrUnlocked)
	if ended == nil {
		return
	}
	cancelAll(contexts, ErrUnlocked)
	l.abandon(driver.ReasonExpired)
	l.locker.background.Go(func() { // not in this goroutine, which runs all clean-ups of the program
		level, text := slog.LevelError, "a lock was dropped without Unlock; it is no longer renewed"
		if l.isFixed() { // a Lease may be meant to end without Unlock
			level, text = slog.LevelDebug, "a lock with a fixed end was dropped without Unlock; it ends with its lease"
		}
		l.locker.log.Log(context.Background(), level, text, "lock", l.name, "token", h.token, "held", h.held())
		h.report(errDropped)
	})
}

// errDropped is the error of the release of a Lock that was dropped.
var errDropped = errors.New("dropped without Unlock")

// abandon ends the renewals of a lease that is over, and lets the next goroutine ask the store.
func (l *lease) abandon(reason driver.Reason) {
	l.locker.renewals.Remove(l)
	l.letNext()
	l.releaseSession(reason)
}

// unlockAll unlocks locks of l in one call. It sets the error of the lock ks[i] in errs[i], if
// there is one.
func (l *Locker) unlockAll(ks Locks, errs []error) {
	claims, ended := make([]driver.Claim, 0, len(ks)), make([]int, 0, len(ks))
	var passed []*hold
	defer func() { // last, because the observer may be slow
		for _, h := range passed {
			h.report(nil)
		}
	}()
	now := l.clock.Now()
	until := now + retry.TimeoutLeast // the call may take as long as the longest lease
	for i, k := range ks {
		k.stopNet()
		if k.hold.passOn() {
			passed = append(passed, k.hold)
		} else if errs[i] = k.hold.finish(); errs[i] == nil {
			claims, ended = append(claims, k.hold.lease.releaseClaim(now)), append(ended, i)
			until = max(until, k.hold.lease.unlockBy(now))
		}
		runtime.KeepAlive(k)
	}
	if len(claims) > 0 {
		l.releaseAll(ks, ended, claims, errs, now, until)
	}
}

// releaseAll releases claims in one call, which begins at the instant `now` and ends at the
// instant `until`. They are the claims of the locks ks[i] for each i in `ended`. releaseAll sets
// the errors of these locks in errs.
func (l *Locker) releaseAll(ks Locks, ended []int, claims []driver.Claim, errs []error, now, until clock.Instant) {
	defer func() { // also if the store's code panics
		for _, i := range ended {
			ks[i].hold.lease.letNext()
		}
	}()
	ctx := &ks[ended[0]].releasing
	ctx.Init(context.Background(), time.Now().Add(min(until-now, retry.ReleaseTimeout(l.ttl, 0))))
	defer ctx.End()
	answers := l.backend.(driver.Batcher).ReleaseAll(ctx, claims) //nolint:forcetypeassert // inBatch has checked
	for len(answers) < len(ended) {
		answers = append(answers, retry.ErrNoAnswer)
	}
	for j, i := range ended { // first the locks with an answer: goroutines wait for them
		if answered(answers[j]) {
			ks[i].hold.lease.letNext()
		}
	}
	retried := func() []error { return nil }
	if slices.ContainsFunc(answers, func(err error) bool { return !answered(err) }) {
		retried = l.retryReleases(ks, ended, claims, answers, now)
	}
	for j, i := range ended {
		l.reportCall(ctx, OpRelease, &claims[j], now, answers[j])
		if answered(answers[j]) {
			errs[i] = ks[i].hold.releaseResult(claims[j], answers[j])
		}
	}
	for j, err := range retried() {
		if err != nil {
			errs[ended[j]] = err
		}
	}
}

// answered reports whether err is an answer of the store to a release.
func answered(err error) bool { return err == nil || retry.Gone(err) }
