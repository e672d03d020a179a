package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Every way in which a hold ends is in this file: its holder unlocks it, alone or with
// others; the lease is passed on; the receiver declines it; the lock is lost; the Lock is
// dropped. What is sent to the store, and followed up, is in cleanup.go.

// unlockWait is how long Unlock waits for an answer, if the lease is not over
// before.
const unlockWait = 3 * time.Second

// release ends the hold: it passes the lease on to the next goroutine, or releases it
// in the store.
func (k *Lock) release() error {
	k.net.Stop()
	h := k.hold
	var err error
	if k.owned == nil && h.passOn() {
		h.report(nil)
	} else {
		err = h.unlock(&k.releasing)
	}
	runtime.KeepAlive(k)
	return err
}

// passOn passes the lease on to the next goroutine in the queue, if there is one and
// it has not been passed on for too long. It returns false, and has changed
// nothing, if not.
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

// decline releases a hold that its receiver does not want any more, to the next in the
// queue or to the store.
func (h *hold) decline() {
	if !h.passOn() {
		h.lease.locker.background.Go(func() { _ = h.unlock(new(deadline.Context)) })
	}
}

// unlock ends the hold and releases it in the store, with a context that was not used
// yet.
func (h *hold) unlock(bound *deadline.Context) error {
	if err := h.finish(); err != nil {
		return err
	}
	c := h.lease.parting(h.lease.locker.clock.Now())
	return h.released(c, h.lease.sendAndSettle(bound, c))
}

// parting returns the claim for an Unlock that is sent now.
func (l *lease) parting(now clock.Instant) driver.Claim {
	c := l.claim(now)
	c.AtLeast = rest(l.kept, now)
	return c
}

// rest is how much longer a name stays taken that is kept until then.
func rest(kept, now clock.Instant) time.Duration { return max(kept-now, 0) }

// finish ends a hold that is not over, and its renewals.
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

// sendAndSettle releases the claim for as long as Unlock waits, and lets the next
// goroutine of this process ask.
func (l *lease) sendAndSettle(bound *deadline.Context, c driver.Claim) error {
	defer l.letNext() // also if the store's code panics
	began := l.locker.clock.Now()
	until := l.unlockBy(began)
	bound.Init(context.Background(), l.locker.clock.Time(min(until, began+retry.ReleaseTimeout(c.TTL, 0))))
	defer bound.End()
	err := l.sendRelease(bound, c, began)
	answered := err == nil || retry.Gone(err)
	if answered {
		l.letNext()
	}
	l.locker.reportCall(bound, OpRelease, &c, began, err)
	if answered {
		return err
	}
	return l.locker.settleFor(c, l.kept, err, until)
}

// sendRelease makes the first call of a release, and lets the next goroutine of this
// process ask, if the store says who else waits. Where goroutines of this process wait
// and nobody else does, the next of them asks as soon as the release is on its way: its
// try arrives behind it. Where others wait, they go first.
func (l *lease) sendRelease(ctx context.Context, c driver.Claim, began clock.Instant) error {
	store, ok := l.locker.backend.(driver.Releaser)
	if l.queue == nil || !ok {
		return l.locker.backend.Release(ctx, c)
	}
	key, others := queueKey{l.name, l.kind}, unknown
	if l.queue.Waits() {
		l.locker.queues.Do(key, func(_ *hold, s *queueState) { others = s.others })
	}
	finish := store.StartRelease(ctx, c)
	if others == 0 {
		l.letNext()
	}
	others, err := finish()
	if err == nil && !l.letNextAfter(func(s *queueState) clock.Instant {
		s.others = others
		return l.locker.yieldFor(others, began, s.chance)
	}) {
		l.locker.queues.Do(key, func(_ *hold, s *queueState) { s.others = others })
	}
	return err
}

// released turns what the store answered to the release into Unlock's answer.
func (h *hold) released(c driver.Claim, err error) error {
	l := h.lease
	switch {
	case err == nil:
	case retry.Gone(err):
		err = fmt.Errorf("unlock: %w", &LostError{Name: c.Name, Reason: retry.ReasonOf(err), Cause: err})
	case errors.Is(err, driver.ErrClosed):
		err = fmt.Errorf("unlock %q: not released; the lease ends in %s: %w", c.Name, coarse(max(l.ends-l.locker.clock.Now(), 0)), err)
	default:
		until := l.releasedBy(l.locker.clock.Now())
		l.locker.cleanUp(c, l.kept, err, until)
		err = fmt.Errorf("unlock %q: not confirmed, goes on in the background; the lease ends in %s: %w",
			c.Name, coarse(max(until-l.locker.clock.Now(), 0)), err)
	}
	h.report(err)
	return err
}

// report reports the end of the hold, if somebody may want to know of it.
func (h *hold) report(err error) {
	if l := h.lease.locker; err != nil || l.observed(context.Background()) {
		l.reportRelease(h, err)
	}
}

// unlockEnded is Unlock of a lock that is over. If the lease may still run in
// the store, an Unlock lets others in sooner.
func (h *hold) unlockEnded(err error) error {
	l := h.lease
	var lost *LostError
	if !errors.As(err, &lost) {
		return fmt.Errorf("unlock %q: %w", l.name, err)
	}
	now := l.locker.clock.Now()
	if until := l.releasedBy(now); until > now && mayBeKept(lost.Reason) && l.step(onCleanUp) {
		l.locker.cleanUp(l.claim(now), 0, nil, until)
	}
	return fmt.Errorf("unlock: %w", err)
}

// unlockBy is when an Unlock that begins now returns: with the lease, though not
// before a store that is near could have answered.
func (l *lease) unlockBy(now clock.Instant) clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(max(l.ends, now+retry.TimeoutLeast), now+unlockWait)
}

// Gone ends the lease because the store says that it is gone, or panicked.
func (l *lease) Gone(err error, report func()) {
	reason := driver.ReasonUnreachable
	if retry.Gone(err) {
		reason = retry.ReasonOf(err)
	}
	_ = l.lose(reason, err, report)
}

// Expired ends the lease because its deadline has passed.
func (l *lease) Expired(last error) {
	_ = l.expire(last) // what it returns, the holder hears from its Lock
}

// lose ends the lease because the lock is lost, once, and returns why it is over. It
// calls first before it reports the loss. Nothing is sent to the store: what is left of
// the lease is the holder's time to stop. Only a store whose leases do not end by
// themselves is asked to release it after that.
func (l *lease) lose(reason driver.Reason, cause error, first func()) error {
	report := make(chan func(), 1)
	l.locker.background.Go(func() { (<-report)() }) // begun before anybody can learn of the loss, and call Drain
	h, contexts, err := l.end(nil, onLoss, &LostError{Name: l.name, Reason: reason, Cause: cause})
	if h == nil {
		report <- func() {}
		return err
	}
	cancelAll(contexts, err)
	l.abandon(reason)
	report <- func() { // last: Drain waits for it, and so for what abandon began
		first()
		l.locker.reportLoss(h, reason, err)
	}
	return err
}

// expire ends a lease whose deadline has passed. cause is what went wrong since it was
// renewed last, nil if nothing did.
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

// dropped is called when the user's Lock was collected without Unlock.
func (h *hold) dropped() {
	l := h.lease
	ended, contexts, _ := l.end(h, onLoss, ErrUnlocked)
	if ended == nil {
		return
	}
	cancelAll(contexts, ErrUnlocked)
	l.abandon(driver.ReasonExpired)
	l.locker.background.Go(func() { // not here, where all clean-ups of the program run
		level, text := slog.LevelError, "a lock was dropped without Unlock; it is no longer renewed"
		if l.isFixed() { // the caller wants it to end so
			level, text = slog.LevelDebug, "a lock with a fixed end was dropped without Unlock; it ends with its lease"
		}
		l.locker.log.Log(context.Background(), level, text, "lock", l.name, "token", h.token, "held", h.held())
		h.report(errDropped)
	})
}

// errDropped is the error of the release of a Lock that was dropped.
var errDropped = errors.New("dropped without Unlock")

// abandon leaves a lease that is over to its end in the store.
func (l *lease) abandon(reason driver.Reason) {
	l.locker.renewals.Remove(l)
	l.letNext()
	l.releaseSession(reason)
}

// unlockAll unlocks the locks of l that ks has at the given places, in one call, and
// leaves the errors there.
func (l *Locker) unlockAll(ks Locks, at []int, errs []error) {
	claims, ended := make([]driver.Claim, 0, len(at)), make([]int, 0, len(at))
	var passed []*hold
	defer func() { // the observer may be slow
		for _, h := range passed {
			h.report(nil)
		}
	}()
	now := l.clock.Now()
	until := now + retry.TimeoutLeast // the batch ends with the longest lease
	for _, i := range at {
		k := ks[i]
		k.net.Stop()
		if k.hold.passOn() {
			passed = append(passed, k.hold)
		} else if errs[i] = k.hold.finish(); errs[i] == nil {
			claims, ended = append(claims, k.hold.lease.parting(now)), append(ended, i)
			until = max(until, k.hold.lease.unlockBy(now))
		}
	}
	if len(claims) == 0 {
		return
	}
	defer func() { // also if the store's code panics
		for _, i := range ended {
			ks[i].hold.lease.letNext()
		}
	}()
	ctx := deadline.New(context.Background(), time.Now().Add(min(until-now, retry.ReleaseTimeout(l.ttl, 0))))
	defer ctx.End()
	answers := l.backend.(driver.Batcher).ReleaseAll(ctx, claims) //nolint:forcetypeassert // inBatch has checked
	for len(answers) < len(ended) {
		answers = append(answers, retry.ErrNoAnswer)
	}
	var wg sync.WaitGroup
	for j, i := range ended { // first what others wait for
		h, err := ks[i].hold, answers[j]
		if err == nil || retry.Gone(err) {
			h.lease.letNext()
			continue
		}
		wg.Go(func() {
			errs[i] = h.released(claims[j], l.settleFor(claims[j], h.lease.kept, err, h.lease.unlockBy(now)))
		})
	}
	for j, i := range ended {
		l.reportCall(ctx, OpRelease, &claims[j], now, answers[j])
		if err := answers[j]; err == nil || retry.Gone(err) {
			errs[i] = ks[i].hold.released(claims[j], err)
		}
	}
	wg.Wait()
}
