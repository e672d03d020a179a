package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// newScheduler returns what renews the leases of the Locker.
func (l *Locker) newScheduler() *renew.Scheduler {
	return renew.New(renew.Config{
		Clock: l.clock, TTL: l.ttl, Margin: l.margin,
		Renew:   l.backend.Renew,
		Verbose: func() bool { return l.observed(context.Background()) },
		Called:  func(ctx context.Context, c renew.Call) { l.emitCall(ctx, OpRenew, c.Claim, c.Took, c.Err) },
		Renewed: l.reportRenewal,
		Ticked:  l.reports.start,
		Idle:    l.notices.end,
	})
}

// What follows makes a lease a renew.Item.

// Entry returns what the scheduler keeps of the lease.
func (l *lease) Entry() *renew.Entry { return &l.entry }

// Until returns the deadline.
func (l *lease) Until() clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Claim is claim for a renewal that is sent now. Whatever becomes of its answer, the
// store may keep the lease until it ends.
func (l *lease) Claim(now clock.Instant) driver.Claim {
	c := l.claim(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mayEnd = max(l.mayEnd, now+c.TTL)
	return c
}

// Answered records that a call which started at start proved the lease, if it did. One
// with a fixed end is not extended by it.
func (l *lease) Answered(start clock.Moment, answer driver.Renewal) (found renew.Report, held bool) {
	now := l.locker.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	found = renew.Report{Item: l, Token: l.holder.token, Err: answer.Err}
	if now >= l.deadline || !l.move(onRenewal) {
		return found, false // too late: the scheduler is about to say so, if nobody has
	}
	found.Margin = l.deadline - now
	if answer.Err != nil {
		return found, true
	}
	found.Left, found.Late = l.ends-now, l.late(now)
	l.proven = start
	if !l.fixed {
		validFor := min(answer.ValidFor, clock.Longest)
		l.countsFrom = start.Mono
		l.ends = start.Mono + validFor
		l.deadline = l.ends - l.locker.marginOf(validFor)
	}
	return found, true
}

// late says that less than a third is left of what the lease had when it began to
// count. It compares a lease with itself: a store may grant one for a short time. A
// lease with a fixed end is not extended, so nothing of it can be late. The mutex is
// held.
func (l *lease) late(now clock.Instant) bool {
	return !l.fixed && l.deadline-now < (l.deadline-l.countsFrom)/3
}

// Gone ends the lease because the store says that it is gone, or panicked.
func (l *lease) Gone(err error, report func()) {
	reason := driver.Unreachable
	if retry.Gone(err) {
		reason = retry.ReasonOf(err)
	}
	_ = l.lose(reason, err, report)
}

// Expired ends the lease because its deadline has passed.
func (l *lease) Expired(last error) {
	_ = l.expire(last) // what it returns, the holder hears from its Lock
}

// setHolds changes the count that renewals record.
func (l *lease) setHolds(count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = int32(count)
}

// recount records the hold count in the store, which also proves and extends the
// hold. Where the store shows no count it does nothing. It asks until ctx is done,
// or so many times if patience is not 0. What it could not record, the next
// renewal does.
func (h *hold) recount(ctx context.Context, patience int) error {
	l := h.lease
	if !l.locker.info.Caps.Counts {
		return nil
	}
	err := l.locker.renewals.Prove(ctx, l, patience)
	if err == nil {
		return nil
	}
	if state := h.state(); over(state) {
		return state
	}
	return fmt.Errorf("lock %q: %w", l.name, err)
}
