package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// renew makes one call for a batch of leases and records the answers. It runs
// beside the keeper's goroutine. What is recorded is reported after that: neither
// the observer nor the log delays a renewal or the end of a lock that is lost.
func (k *keeper) renew(batch []*lease) {
	call := k.call(batch)
	var reports renewalReports
	if errors.Is(call.err, errPanic) && len(batch) > 1 {
		k.renewEach(batch, &reports)
	} else {
		k.record(batch, call, &reports)
	}
	k.arrive(batch)
	k.report(reports)
}

// renewEach renews the leases of a batch one by one: one of them made the store's
// code panic, and must not take the others along.
func (k *keeper) renewEach(batch []*lease, reports *renewalReports) {
	for i := range batch {
		one := batch[i : i+1]
		k.record(one, k.call(one), reports)
	}
}

// errPanic says that a Backend panicked.
var errPanic = errors.New("the renewal panicked")

// renewalCall is a call of Renew that has ended.
type renewalCall struct {
	start   clock.Moment
	answers []driver.Renewal // one for each claim, unless err says why there are none
	err     error
	event   Event // for the observer
}

// call asks the store to renew a batch.
func (k *keeper) call(batch []*lease) (c renewalCall) {
	k.mu.Lock()
	f, failures := batch[0].renewing.flight, batch[0].renewing.failures
	k.mu.Unlock()
	c.start = k.locker.clock.Read()
	claims := make([]driver.Claim, len(batch))
	for i, l := range batch {
		claims[i] = l.extension(c.start.Mono)
	}
	defer func() {
		if p := recover(); p != nil {
			c.err = fmt.Errorf("%w: %v", errPanic, p)
		}
		c.event = k.locker.callEvent(OpRenew, &claims[0], c.start.Mono, c.err)
	}()
	ctx := k.locker.bound(f.ctx, retry.Timeout(k.locker.ttl, int(failures)))
	defer ctx.End()
	c.answers, c.err = k.locker.backend.Renew(ctx, claims)
	if c.err == nil && len(c.answers) != len(claims) {
		c.err = fmt.Errorf("%s answered %d of %d renewals", k.locker.info.Name, len(c.answers), len(claims))
	}
	return c
}

// renewalReports are calls and renewals that are recorded, and not reported yet.
type renewalReports struct {
	calls    []Event
	renewals []renewalReport
}

// renewalReport is what a renewal found.
type renewalReport struct {
	hold *hold
	renewal
	err error
}

// record takes what the store answered over into the leases, ends those that are
// gone, and adds what is to be reported to reports.
func (k *keeper) record(batch []*lease, call renewalCall, reports *renewalReports) {
	observed, fresh := k.locker.observed(context.Background()), false
	events := []Event{call.event} // whoever reports first reports it
	for i, l := range batch {
		answer := driver.Renewal{Err: call.err}
		if call.err == nil {
			answer = call.answers[i]
		}
		found := renewalReport{hold: l.current(), err: answer.Err}
		switch {
		case answer.Err == nil:
			var held bool
			if found.renewal, held = k.succeeded(l, call.start, answer.ValidFor); !held {
				continue
			}
		case retry.Gone(answer.Err):
			before := events
			events = nil
			found.margin = l.remaining(k.locker.clock.Now())
			_ = l.loseWith(retry.ReasonOf(answer.Err), answer.Err, func() {
				k.locker.emitAll(before)
				k.locker.reportRenewal(found)
			})
			continue
		case errors.Is(answer.Err, errPanic):
			fresh = true
			_ = l.lose(driver.Unreachable, answer.Err)
			continue
		default:
			if found.margin = k.failed(l, answer.Err); found.margin == 0 {
				continue
			}
		}
		if (observed || found.late || found.err != nil) && k.beginReport(l) {
			fresh = true
			reports.renewals = append(reports.renewals, found)
		}
	}
	if fresh { // else all are still being reported
		reports.calls = append(reports.calls, events...)
	}
}

func (k *keeper) succeeded(l *lease, start clock.Moment, validFor time.Duration) (renewal, bool) {
	found, held := l.renewed(start, validFor)
	if !held {
		return found, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	l.renewing.failures, l.renewing.err = 0, nil
	if !l.fixed && l.renewing.renewAt == 0 { // else the clock jumped meanwhile, and it is due again
		period := k.periodOf(l, validFor)
		l.renewing.renewAt = onGrid(start.Mono+period, period)
	}
	return found, true
}

// failed plans the next attempt, and returns how much of the lease is left for it.
func (k *keeper) failed(l *lease, err error) (left time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.renewing.failures++
	l.renewing.err = err
	now := k.locker.clock.Now()
	l.renewing.renewAt = now + retry.Delay(int(l.renewing.failures), min(retry.DelayMost, k.period()/4))
	return l.remaining(now)
}

// arrive ends the flight of a batch and plans its leases anew.
func (k *keeper) arrive(batch []*lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	batch[0].renewing.flight.end()
	for _, l := range batch {
		l.renewing.flight = nil
		k.renewAt(l, l.renewing.renewAt)
	}
}

// beginReport returns false where a renewal of l is still being reported.
func (k *keeper) beginReport(l *lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	begun := !l.renewing.reporting
	l.renewing.reporting = true
	return begun
}

func (k *keeper) endReport(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.renewing.reporting = false
}

// report tells the observer and the log what was recorded.
func (k *keeper) report(reports renewalReports) {
	k.locker.emitAll(reports.calls)
	for _, r := range reports.renewals {
		k.locker.reportRenewal(r)
		k.endReport(r.hold.lease)
	}
}
