package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// unlockWait is how long Unlock waits for an answer, if the lease is not over
// before.
const unlockWait = 3 * time.Second

// unlock ends the hold and tells the store, with a context that was not used yet.
func (h *hold) unlock(bound *deadline.Context) error {
	if err := h.finish(); err != nil {
		return err
	}
	c := h.lease.claim(h.lease.locker.clock.Now())
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
	h.lease.locker.renewals.Remove(h.lease)
	return nil
}

// released turns what the store answered to the release into Unlock's answer.
func (h *hold) released(c driver.Claim, err error) error {
	l := h.lease
	switch {
	case err == nil:
	case retry.Gone(err):
		err = fmt.Errorf("unlock: %w", &LostError{Name: c.Name, Reason: retry.ReasonOf(err), Cause: err})
	case errors.Is(err, driver.ErrClosed):
		err = fmt.Errorf("unlock %q: not given back; the lease ends in %s: %w", c.Name, coarse(max(l.ends-l.locker.clock.Now(), 0)), err)
	default:
		until := l.releasedBy(l.locker.clock.Now())
		l.locker.cleanUp(c, err, until)
		err = fmt.Errorf("unlock %q: not confirmed, goes on in the background; the lease ends in %s: %w",
			c.Name, coarse(max(until-l.locker.clock.Now(), 0)), err)
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
	now := l.locker.clock.Now()
	if until := l.releasedBy(now); until > now && mayBeKept(lost.Reason) && l.once() {
		l.locker.cleanUp(l.claim(now), nil, until)
	}
	return fmt.Errorf("unlock: %w", err)
}

// mayBeKept says that the store may still keep a lock that was lost for this reason:
// nobody has asked it, or it has not answered.
func mayBeKept(reason driver.Reason) bool {
	return reason == driver.Unreachable || reason == driver.Expired
}

// tell releases the claim, and lets the next goroutine of this process ask.
func (l *lease) tell(bound *deadline.Context, c driver.Claim) error {
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
	return l.locker.settleFor(c, err, until)
}

// unlockBy is when an Unlock that begins now returns: with the lease, though not
// before a store that is near could have answered.
func (l *lease) unlockBy(now clock.Instant) clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(max(l.ends, now+retry.TimeoutLeast), now+unlockWait)
}

// settleFor goes on with a release whose first call ended with err, for as long
// as Unlock waits.
func (l *Locker) settleFor(c driver.Claim, err error, until clock.Instant) error {
	ctx, cancel := context.WithDeadline(context.Background(), l.clock.Time(until))
	defer cancel()
	return l.settleAfter(ctx, c, err)
}
