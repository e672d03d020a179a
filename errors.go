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
// errors.ErrUnsupported. errors.As finds the error of the store in an error that contains it.
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
	HeldFor   time.Duration // how long the holder has held the lock; 0 if unknown

	// Until is set if nobody holds the lock any more, but AtLeast keeps its name taken until
	// then. Holder is then the last holder.
	Until time.Time
}

// Error returns a text with the lock, its holder, how long it has been held and when the lease
// ends, or until when AtLeast keeps the lock.
func (e *BusyError) Error() string {
	text := fmt.Sprintf("lock %q is %s", e.Name, e.taken())
	if !e.Until.IsZero() {
		return text
	}
	if e.HeldFor >= time.Second { // most locks are held for a shorter time, and such a time helps no reader
		text += " for " + coarse(e.HeldFor).String()
	}
	if e.Remaining > 0 {
		text += ", lease ends in " + coarse(e.Remaining).String()
	}
	return text
}

// taken returns the part of the text that names the holder. If AtLeast keeps the lock, that
// part names the last holder, and the time until which the lock is kept.
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

// coarse rounds a duration for a text that people read.
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

// errSlow is the error if most of the lease has passed when a grant arrives.
var errSlow = errors.New("the store answers too slowly for this lease")

// An acquire fails after lateMost grants in a row that came too late. Without this limit an
// acquire whose lease is too short for the store would try without end, and other clients would
// find the name taken again and again. If the lease has no fixed end, the acquire fails only
// when such grants have come for the time lateLong, because a slow store may answer in time
// again after some seconds.
const (
	lateMost = 3
	lateLong = 10 * time.Second
)

// failed decides what to do after a try without a usable answer. If the caller has to try
// again, failed returns nil after a pause. If the store does not have the claim any more,
// failed makes a new claim before it returns nil. If the caller must not try again, failed
// returns the error of the acquire.
func (a *acquisition) failed(ctx, waitCtx context.Context, err error) error {
	switch {
	case err == nil && a.late >= lateMost && (a.req.leased || a.locker.clock.Now()-a.lateFrom >= lateLong):
		return fmt.Errorf("lock %q: %w: the answer took %s of a lease of %s, %d times in a row",
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
		case a.late > 0: // the store did answer, but not that the lock is busy
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
		a.locker.queues.Do(a.queueKey(), func(_ *hold, s *queueState) { s.lastErr = a.lastErr })
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

// refused returns the error of an acquire. The parameter err is an error of the store that does
// not go away by waiting. If the caller's context has ended meanwhile, the result contains both
// err and the error of the context.
func (a *acquisition) refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("lock %q: %w; %w", a.claim.Name, err, retry.ContextError(ctx))
	}
	return fmt.Errorf("lock %q: %w", a.claim.Name, err)
}

// busyLocally records why a caller does not get the lock while another goroutine of this
// process is before it in the queue. The reason is the holder in this process, or what the
// goroutine that asks the store has found: an error, or the last answer of the store.
func (a *acquisition) busyLocally() {
	var holder *hold
	var queue queueState
	a.locker.queues.Do(a.queueKey(), func(h *hold, s *queueState) { holder, queue = h, *s })
	a.last, a.answered = driver.Outcome{}, true
	switch {
	case holder != nil:
		a.last = driver.Outcome{Holder: holder.lease.note, RetryAfter: holder.remaining(), HeldFor: holder.held()}
	case queue.lastErr != nil || a.req.wait > 0 && queue.unconfirmed(a.began, a.locker.clock.Now()): // the lock may be free
		a.answered, a.lastErr = false, queue.lastErr
		return
	case queue.lastBusy != nil:
		a.last, a.asked.Mono = *queue.lastBusy, queue.answeredAt // another process holds it
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

// outOfTime returns the error of an acquire when the caller's time is over. If ctx has ended,
// it returns the error of ctx. If not, it returns ErrBusy if the lock was found busy, and
// otherwise the last error of the store.
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
