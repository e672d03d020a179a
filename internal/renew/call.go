package renew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// errPanic is the error of a call in which Config.Renew panicked.
var errPanic = errors.New("the renewal panicked")

// renew makes the call of a batch, records the answers, and then reports them. In this order,
// no report delays a renewal or the end of an item.
func (s *Scheduler) renew(b *batch) {
	var r reports
	s.renewPart(b, b.items, &r)
	s.complete(b)
	s.report(&r)
}

// renewPart renews some items of a batch. If the store's code panics, one item may be the
// reason, and the others must not be lost. So each half of the items is renewed again in its
// own call.
func (s *Scheduler) renewPart(b *batch, items []Item, r *reports) {
	c := s.call(b.ctx, items, b.failures)
	if half := len(items) / 2; half > 0 && errors.Is(c.err, errPanic) {
		s.renewPart(b, items[:half], r)
		s.renewPart(b, items[half:], r)
		return
	}
	s.record(items, c, r)
}

// call is a call of Renew that has ended.
type call struct {
	start    clock.Moment
	failures int              // how many renewals of each item had failed in a row before this call
	answers  []driver.Renewal // one for each claim, if err is nil
	err      error
	report   Call
}

// answer returns the answer to the claim with the index `at`. If the call failed, the answer
// has the error of the call.
func (c *call) answer(at int) driver.Renewal {
	if c.err != nil {
		return driver.Renewal{Err: c.err}
	}
	return c.answers[at]
}

// failure returns the error of the call, or the error of the first claim without an answer. If
// all claims have answers, it returns nil. The answer that a claim is gone is no failure.
func (c *call) failure() error {
	if c.err != nil {
		return c.err
	}
	for _, a := range c.answers {
		if a.Err != nil && !retry.Gone(a.Err) {
			return a.Err
		}
	}
	return nil
}

// call asks the store to renew items.
func (s *Scheduler) call(ctx context.Context, items []Item, failures int) (c call) {
	c.start, c.failures = s.Clock.Read(), failures
	claims := make([]driver.Claim, len(items))
	for n, i := range items {
		claims[n] = i.Claim(c.start.Mono)
	}
	defer func() {
		if p := recover(); p != nil {
			c.err = fmt.Errorf("%w: %v", errPanic, p)
		}
		c.report = Call{Claim: &claims[0], Took: s.Clock.Now() - c.start.Mono, Err: c.failure()}
	}()
	c.answers, c.err = s.ask(ctx, claims, failures)
	return c
}

// ask calls Config.Renew, with the time limit that retry.Timeout returns.
func (s *Scheduler) ask(ctx context.Context, claims []driver.Claim, failures int) ([]driver.Renewal, error) {
	bound := deadline.New(ctx, time.Now().Add(retry.Timeout(s.TTL, failures)))
	defer bound.End()
	answers, err := s.Renew(bound, claims)
	if err == nil && len(answers) != len(claims) {
		err = fmt.Errorf("%d of %d renewals were answered", len(answers), len(claims))
	}
	return answers, err
}

// record records the answers in the items, ends those items whose claim is gone, and adds to
// r the calls and renewals that have to be reported.
func (s *Scheduler) record(items []Item, c call, r *reports) {
	verbose, fresh := s.Verbose(), false
	retryAt := s.retryAt(c.failures + 1) // the same instant for all items, so that they share the next call
	calls := []Call{c.report}            // reported once, before the first renewal
	for n, i := range items {
		answer := c.answer(n)
		found, held := i.Answered(c.start, answer)
		switch {
		case retry.Gone(answer.Err):
			before := calls
			calls = nil
			i.Gone(answer.Err, func() {
				s.called(before)
				s.Renewed(found)
			})
			continue
		case errors.Is(answer.Err, errPanic):
			fresh = true
			i.Gone(answer.Err, func() {})
			continue
		}
		s.planNext(i, c.start, answer, held, found.Fixed, retryAt)
		if held && (verbose || found.Late || found.Err != nil) && s.beginReport(found) {
			fresh = true
			r.renewals = append(r.renewals, found)
		}
	}
	if fresh { // if not, earlier reports of all the items are still on their way
		r.calls = append(r.calls, calls...)
	}
}

// retryAt returns when to renew items again, if the renewals of each have failed `failures`
// times in a row.
func (s *Scheduler) retryAt(failures int) clock.Instant {
	return s.Clock.Now() + retry.Delay(failures, min(retry.DelayMost, s.periodOf(s.TTL)/4))
}

// planNext plans the next renewal of an item after an answer. If the renewal failed, the next
// renewal is at the instant `retryAt`. It plans nothing for an item that is over.
func (s *Scheduler) planNext(i Item, start clock.Moment, answer driver.Renewal, held, fixed bool, retryAt clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := i.Entry()
	switch {
	case answer.Err != nil && e.heapIndex == 0: // the end of the item has cancelled the call, which is no error of the store
		if e.err == nil {
			e.err = retry.ErrNoAnswer
		}
	case answer.Err != nil:
		e.failures++
		e.err = retry.ToReport(e.err, answer.Err)
		e.renewAt = retryAt
	case held:
		e.failures, e.err = 0, nil
		if fixed && e.checkEvery == 0 {
			e.checkEvery = max(s.periodOf(s.TTL), 1)
		}
		if e.renewAt == 0 { // if not, Hurry was called meanwhile, and the item is due again
			period := cmp.Or(e.checkEvery, s.periodOf(answer.ValidFor))
			e.renewAt = s.onGrid(start.Mono+period, period)
		}
	}
}

// complete ends a batch, and plans its items again.
func (s *Scheduler) complete(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.end()
	s.pace.underWay--
	for _, i := range b.items {
		i.Entry().batch = nil
		s.renewAt(i, i.Entry().renewAt)
	}
	s.arm(s.Clock.Now()) // other items may have waited for the end of this call
}

// reports are the calls and renewals that are recorded, but not reported yet.
type reports struct {
	calls    []Call
	renewals []Report
}

// report reports what was recorded.
func (s *Scheduler) report(r *reports) {
	s.called(r.calls)
	for _, found := range r.renewals {
		for more := true; more; found, more = s.endReport(found.Item) {
			s.Renewed(found)
		}
	}
}

func (s *Scheduler) called(calls []Call) {
	for _, c := range calls {
		s.Called(context.Background(), c)
	}
}

// beginReport records that the renewal `found` is reported, and returns true. If an earlier
// renewal of the item is still being reported, it returns false, and `found` is reported after
// that, unless another renewal ends before.
func (s *Scheduler) beginReport(found Report) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := found.Item.Entry()
	if e.reporting {
		if s.unreported == nil {
			s.unreported = make(map[Item]Report)
		}
		s.unreported[found.Item] = found
		return false
	}
	e.reporting = true
	return true
}

// endReport returns the renewal of the item that has to be reported next, if there is one.
func (s *Scheduler) endReport(i Item) (next Report, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, more = s.unreported[i]
	delete(s.unreported, i)
	i.Entry().reporting = more
	return next, more
}
