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

// denial is what a call knows about why it has no lock yet. The acquisition reports to it what
// comes of each try, and gets the error of the call from it. The zero denial knows nothing.
//
// A busy lock and an error of the store are both kept. The call reports the lock as busy if that
// was the answer to its last try, and otherwise the error.
type denial struct {
	isBusy   bool           // the lock was found busy, and the field `busy` is set
	busy     driver.Outcome // why the lock is busy: the last such answer of the store, or what this process knows
	here     bool           // the holder has the note of this Locker, and is one of its goroutines
	asked    clock.Instant  // when the try began that has this answer
	answered clock.Instant  // when the answer came

	err      error // the error to report, see retry.ToReport; nil if no try has failed
	failures int32 // how many tries in a row had no usable answer

	late     int32         // how many grants in a row came when most of their lease was over
	lateFrom clock.Instant // the start of the first of these tries
}

// foundBusy records that the lock is busy: the answer of the store, at the instant `answered`, to a
// try that began at `asked`.
func (d *denial) foundBusy(out driver.Outcome, asked, answered clock.Instant) {
	d.failures = 0
	d.late = 0
	d.isBusy = true
	d.here = false
	d.busy = out
	d.asked = asked
	d.answered = answered
}

// cameLate records a grant that came when most of its lease was over. The parameter `asked` is the
// start of its try.
func (d *denial) cameLate(asked clock.Instant) {
	d.late++
	if d.late == 1 {
		d.lateFrom = asked
	}
}

// failed records a try without a usable answer.
func (d *denial) failed(err error) {
	d.failures++
	d.err = retry.ToReport(d.err, err)
}

// cutOff records the error of the try during which the caller's time ended. Such an error says
// little about the store, so an earlier error stays. A lock that was busy before still counts as
// busy, unless the store has granted it since then, too late.
func (d *denial) cutOff(err error) {
	switch {
	case d.late > 0:
		d.isBusy = false
		d.err = retry.ToReport(d.err, err)
	case d.err == nil && !retry.Ended(err):
		d.err = err
	}
}

// lastAnswerIsBusy reports whether the lock was busy as far as the last answer shows.
func (d *denial) lastAnswerIsBusy() bool { return d.isBusy && d.failures == 0 }

// behind records why a caller does not get the lock while another goroutine of this process is
// before it in the queue. The reason is the holder in this process, or what the goroutine that
// asks the store has found: an error, or the last answer of the store. The caller has waited
// since `began`; if it does not wait, `waits` is false.
func (d *denial) behind(l *Locker, key queueKey, began clock.Instant, waits bool) {
	var holder *hold
	var queue queueState
	l.queues.Do(key, func(h *hold, s *queueState) {
		holder = h
		queue = *s
	})
	now := l.clock.Now()
	d.isBusy = true
	d.here = false
	d.asked = now
	d.answered = now
	switch {
	case holder != nil:
		d.busy = driver.Outcome{Holder: holder.lease.note, RetryAfter: holder.remaining(), HeldFor: holder.held()}
		d.here = d.busy.Holder != ""
		d.busy.Holder = cmp.Or(d.busy.Holder, someGoroutine)
	case queue.lastErr != nil || waits && queue.mayBeFree(began, now):
		// The store fails, or does not answer the goroutine that asks it: then the lock may be free,
		// and the error is that there was no answer.
		d.isBusy = false
		d.busy = driver.Outcome{}
		d.err = queue.lastErr
	case queue.lastBusy != nil: // another process holds it
		d.busy = *queue.lastBusy
		d.asked = queue.answeredAt
		d.answered = queue.answeredAt
	default:
		d.busy = driver.Outcome{Holder: someGoroutine}
	}
}

// someGoroutine names a holder of this process that has no note.
const someGoroutine = "another goroutine of this process"

// busyError returns the error for a lock that was found busy. Its times are those of now: the
// answer may be as old as the wait was long.
func (d *denial) busyError(name string, l *Locker) *BusyError {
	age := max(l.clock.Now()-d.answered, 0)
	e := &BusyError{Name: name, Holder: d.busy.Holder, Remaining: max(d.busy.RetryAfter-age, 0), here: d.here}
	switch {
	case d.busy.Kept && d.busy.RetryAfter > 0:
		e.Until = l.clock.Time(d.asked + d.busy.RetryAfter)
	case d.busy.HeldFor > 0:
		e.HeldFor = d.busy.HeldFor + age
	}
	return e
}

// outOfTime returns the error of a call whose time is over: the end of its context, or of `wait`,
// the time for which it waits. If ctx has ended, the error is that of ctx. If not, it is ErrBusy
// if the lock was found busy, and otherwise the last error of the store.
func (d *denial) outOfTime(ctx context.Context, name string, wait time.Duration, l *Locker) error {
	if ctx.Err() != nil {
		ended := retry.ContextError(ctx)
		switch {
		case d.lastAnswerIsBusy() && d.busy.Holder != "":
			return fmt.Errorf("lock %q: %w while %s", name, ended, d.busyError(name, l).taken())
		case d.err != nil && !d.lastAnswerIsBusy():
			return fmt.Errorf("lock %q: %w; the store's last error: %w", name, ended, d.err)
		}
		return fmt.Errorf("lock %q: %w", name, ended)
	}
	switch {
	case d.lastAnswerIsBusy():
		return d.busyError(name, l)
	case d.err != nil:
		return fmt.Errorf("lock %q: not acquired within %s: %w", name, coarse(wait), retry.Unanswered(d.err))
	}
	return fmt.Errorf("lock %q: no answer from %s within %s", name, l.info.Name, coarse(wait))
}

// refusedBy returns the error of a call to which the store has given an error that does not go
// away by waiting. If the caller's context has ended meanwhile, the result contains both errors.
func refusedBy(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("lock %q: %w; %w", name, err, retry.ContextError(ctx))
	}
	return fmt.Errorf("lock %q: %w", name, err)
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

// tooSlow reports whether the store has answered too late for long enough. The parameter `fixed`
// says that the lease has a fixed end.
func (d *denial) tooSlow(now clock.Instant, fixed bool) bool {
	return d.late >= lateMost && (fixed || now-d.lateFrom >= lateLong)
}
