package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/deadline"
)

// unlockWait is how long Unlock waits for an answer, if the lease is not over
// before.
const unlockWait = 3 * time.Second

// unlock ends the hold and tells the store, with a context that was not used yet.
func (h *hold) unlock(bound *deadline.Context) error {
	if err := h.finish(); err != nil {
		return err
	}
	c := h.lease.claim(h.lease.locker.elapsed())
	return h.released(c, h.lease.tell(bound, c))
}

// finish ends a hold that is not over, and its renewals.
func (h *hold) finish() error {
	if err := h.state(); over(err) {
		return h.unlockEnded(err)
	}
	if err, first := h.end(); !first {
		return h.unlockEnded(err)
	}
	h.lease.locker.keeper.remove(h.lease)
	return nil
}

// released turns what the store answered to the release into Unlock's answer.
func (h *hold) released(c driver.Claim, err error) error {
	l := h.lease
	switch {
	case err == nil:
	case isGone(err):
		err = fmt.Errorf("unlock: %w", &LostError{Name: c.Name, Reason: reasonOf(err), Cause: err})
	default:
		l.locker.cleanUpAfter(c, err)
		err = fmt.Errorf("unlock %q: not confirmed, goes on in the background; the lease ends in %s: %w",
			c.Name, coarse(max(l.ends-l.locker.elapsed(), 0)), err)
	}
	l.locker.reportRelease(h, err)
	return err
}

// unlockEnded is Unlock of a lock that is over. If the lease may still run in
// the store, the holder's word that it is done lets others in sooner.
func (h *hold) unlockEnded(err error) error {
	l := h.lease
	var lost *LostError
	if !errors.As(err, &lost) {
		return fmt.Errorf("unlock %q: %w", l.name, err)
	}
	now := l.locker.elapsed()
	if left := l.ends - now; left > 0 && (lost.Reason == driver.Unreachable || lost.Reason == driver.Expired) && l.once() {
		c := l.claim(now)
		c.TTL = left
		l.locker.cleanUp(c)
	}
	return fmt.Errorf("unlock: %w", err)
}

// tell releases the claim and vacates the gate. Where goroutines of this process
// wait and nobody else does, the next of them asks as soon as the release is on
// its way: its try arrives behind it. Where others wait, they go first.
func (l *lease) tell(bound *deadline.Context, c driver.Claim) error {
	defer l.vacate(0) // also if the store's code panics
	err := l.tellOnce(bound, c)
	if err == nil || isGone(err) {
		return err
	}
	return l.locker.settleFor(c, err)
}

// settleFor goes on with a release whose first call ended with err, for as long
// as Unlock waits.
func (l *Locker) settleFor(c driver.Claim, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), min(c.TTL, unlockWait)-releaseLimit(c.TTL, 0))
	defer cancel()
	return l.settleAfter(ctx, c, err)
}

// tellOnce makes the first call of a release.
func (l *lease) tellOnce(bound *deadline.Context, c driver.Claim) error {
	began := l.locker.elapsed()
	bound.Init(context.Background(), l.locker.at(began+releaseLimit(c.TTL, 0)))
	defer bound.End()
	if store, ok := l.locker.backend.(driver.Releaser); ok && l.gate != nil {
		if here, others := l.gate.waiting(); here {
			return l.inTwoSteps(bound, store, c, others, began)
		}
	}
	return l.locker.releaseOnce(bound, c)
}

// inTwoSteps releases a name that others of this process wait for.
func (l *lease) inTwoSteps(ctx context.Context, store driver.Releaser, c driver.Claim, others int, began instant) error {
	finish := store.BeginRelease(ctx, c)
	if others == 0 {
		l.vacate(0)
	}
	others, err := finish()
	l.locker.reportCall(ctx, OpRelease, &c, began, err)
	if err == nil {
		l.locker.gates.counted(gateKey{l.name, l.kind}, others)
		l.vacate(yieldFor(others, l.locker.elapsed()-began))
	}
	return err
}
