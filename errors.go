package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// Errors to test for with errors.Is. A call that the store cannot perform returns
// errors.ErrUnsupported. errors.As reaches the error of the store.
var (
	// ErrBusy: another client holds the lock. The error is also a *BusyError.
	ErrBusy = errors.New("held by another")

	// ErrLost: the lock ended before Unlock. The error is also a *LostError.
	ErrLost = errors.New("lock lost")

	// ErrUnlocked: Unlock was called before.
	ErrUnlocked = errors.New("already unlocked")

	// ErrDeadlock: the caller would wait for itself.
	ErrDeadlock = errors.New("would wait for itself")

	// ErrMismatch: the name is in use for another kind of lock, or for data.
	ErrMismatch = driver.ErrMismatch
)

// BusyError is the error for a lock that another client holds. It names that client.
type BusyError struct {
	Name      string
	Holder    string        // a text for people; "" if the store does not know it
	Remaining time.Duration // the rest of the holder's lease without a renewal; 0 if unknown
	HeldFor   time.Duration // how long the holder has held it; 0 if unknown

	// Until is set if nobody holds the lock any more: AtLeast keeps it taken until then,
	// and Holder is who had it.
	Until time.Time
}

// Error returns a text with the lock, its holder, how long it has been held and when the
// lease ends, or until when AtLeast keeps it.
func (e *BusyError) Error() string {
	text := fmt.Sprintf("lock %q is %s", e.Name, e.taken())
	if !e.Until.IsZero() {
		return text
	}
	if e.HeldFor >= time.Second { // most locks are over before: it would say nothing
		text += " for " + coarse(e.HeldFor).String()
	}
	if e.Remaining > 0 {
		text += ", lease ends in " + coarse(e.Remaining).String()
	}
	return text
}

// taken says who has the lock, or who had it and until when it is kept.
func (e *BusyError) taken() string {
	holder := cmp.Or(e.Holder, "another client")
	if e.Until.IsZero() {
		return "held by " + holder
	}
	return clock.TakenUntil(e.Until) + " (kept by " + holder + ")"
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// LostError is the error of a lock that ended before Unlock. It has the reason.
type LostError struct {
	Name   string
	Reason driver.Reason
	Cause  error // the last error of the store; may be nil
}

// Error returns a text with the lock and the reason.
func (e *LostError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("lock %q lost: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("lock %q lost: %s: %v", e.Name, e.Reason, e.Cause)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// coarse rounds a duration to what a person wants to read.
func coarse(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Millisecond)
	}
}

// errSlow says that grants arrive when most of their lease is over.
var errSlow = errors.New("the store answers so slowly that the lease would be over soon")

// lateMost is how many grants in a row may come too late to be kept. A lease that is so
// short for the store would keep the name taken from others, and never be held. Where the
// lease is renewed, they may do so for lateLong: a store that is slow for some seconds is
// waited for, like one that is away.
const (
	lateMost = 3
	lateLong = 10 * time.Second
)

// failed decides what to do when a try brought no usable answer: nil means to try again,
// with the same claim unless that is gone.
func (a *acquisition) failed(ctx, waitCtx context.Context, err error) error {
	switch {
	case err == nil && a.late >= lateMost && (a.req.leased || a.locker.clock.Now()-a.lateFrom >= lateLong):
		return fmt.Errorf("lock %q: %w: its answer took %s of a lease of %s, %d times in a row",
			a.claim.Name, errSlow, coarse(a.locker.clock.Now()-a.asked.Mono), a.claim.TTL, a.late)
	case err == nil:
		err = errSlow
	}
	if !retry.Certain(err) {
		a.claim.Indeterminate = true
	}
	switch {
	case retry.Gone(err):
		a.replaceClaim()
	case retry.Final(err):
		return a.refused(ctx, err)
	case retry.Over(waitCtx):
		switch {
		case a.late > 0: // an answer, and not that the lock is busy
			a.failures++
			a.lastErr = err
		case a.lastErr == nil && !retry.Ended(err):
			a.lastErr = err
		}
		return a.outOfTime(ctx)
	}
	a.failures++
	a.lastErr = retry.ToReport(a.lastErr, err)
	if a.place != nil {
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { s.trouble = a.lastErr })
	}
	if a.req.wait == 0 && a.failures >= retry.TryFailures {
		if ctx.Err() == nil {
			err = retry.Unanswered(err)
		}
		return fmt.Errorf("lock %q: %w", a.claim.Name, err)
	}
	if !retry.Sleep(waitCtx, retry.Delay(int(a.failures), retry.DelayMost)) {
		return a.outOfTime(ctx)
	}
	return nil
}

// refused is the error for what waiting cannot fix. It says so however late the
// answer came: that the caller's time is over as well is the lesser news.
func (a *acquisition) refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("lock %q: %w; %w", a.claim.Name, err, retry.ContextError(ctx))
	}
	return fmt.Errorf("lock %q: %w", a.claim.Name, err)
}

// busyHere records who of this process is in the way: the holder, or a goroutine that asks
// the store, with what the store has answered to it.
func (a *acquisition) busyHere() {
	var holder *hold
	var queue queueState
	a.locker.queues.Do(a.queueKey(), func(h *hold, s *queueState) { holder, queue = h, *s })
	a.last, a.answered = driver.Outcome{}, true
	switch {
	case holder != nil:
		a.last = driver.Outcome{Holder: holder.lease.note, RetryAfter: holder.remaining(), HeldFor: holder.held()}
	case queue.trouble != nil || a.req.wait > 0 && queue.silent(a.began, a.locker.clock.Now()): // nothing says that it is held
		a.answered, a.lastErr = false, queue.trouble
		return
	case queue.lastBusy != nil:
		a.last, a.asked.Mono = *queue.lastBusy, queue.heard // the holder is elsewhere, whether the store says who it is or not
		return
	}
	a.last.Holder = cmp.Or(a.last.Holder, "another goroutine of this process")
}

func (a *acquisition) busy() *BusyError {
	e := &BusyError{Name: a.claim.Name, Holder: a.last.Holder, Remaining: a.last.RetryAfter, HeldFor: a.last.HeldFor}
	if a.last.Kept && a.last.RetryAfter > 0 {
		e.Until, e.HeldFor = a.locker.clock.Time(a.asked.Mono+a.last.RetryAfter), 0
	}
	return e
}

// outOfTime is the error when waiting came to its end: ctx's own if ctx is over,
// else busy if the store said so, else what the store's trouble was.
func (a *acquisition) outOfTime(ctx context.Context) error {
	name := a.claim.Name
	if ctx.Err() != nil {
		switch {
		case a.lastErr != nil && !a.answered:
			return fmt.Errorf("lock %q: %w; the store's last error: %w", name, retry.ContextError(ctx), a.lastErr)
		case a.answered && a.last.Holder != "":
			return fmt.Errorf("lock %q: %w while %s", name, retry.ContextError(ctx), a.busy().taken())
		}
		return fmt.Errorf("lock %q: %w", name, retry.ContextError(ctx))
	}
	switch {
	case a.answered && a.failures == 0:
		return a.busy()
	case a.lastErr != nil:
		return fmt.Errorf("lock %q: not acquired within %s: %w", name, coarse(a.req.wait), retry.Unanswered(a.lastErr))
	}
	return fmt.Errorf("lock %q: no answer from %s within %s", name, a.locker.info.Name, coarse(a.req.wait))
}
