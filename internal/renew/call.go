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

// errPanic says that Config.Renew panicked.
var errPanic = errors.New("the renewal panicked")

// renew makes the call of a batch and records the answers. What is recorded is reported
// after that: no report delays a renewal or the end of an item.
func (s *Scheduler) renew(b *batch) {
	var r reports
	s.renewPart(b, b.items, &r)
	s.complete(b)
	s.report(&r)
}

// renewPart renews items of a batch. If one of them made the store's code panic, it must
// not take the others along: then each half is renewed in a call of its own.
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
	failures int              // of each item before, in a row
	answers  []driver.Renewal // one for each claim, unless err says why there are none
	err      error
	report   Call
}

// answer returns what was answered to the claim at a place.
func (c *call) answer(at int) driver.Renewal {
	if c.err != nil {
		return driver.Renewal{Err: c.err}
	}
	return c.answers[at]
}

// failure returns why claims have no answer, for the first of those that have none. That a
// claim is gone is an answer.
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

// ask makes the call, for as long as Timeout says.
func (s *Scheduler) ask(ctx context.Context, claims []driver.Claim, failures int) ([]driver.Renewal, error) {
	bound := deadline.New(ctx, time.Now().Add(retry.Timeout(s.TTL, failures)))
	defer bound.End()
	answers, err := s.Renew(bound, claims)
	if err == nil && len(answers) != len(claims) {
		err = fmt.Errorf("%d of %d renewals were answered", len(answers), len(claims))
	}
	return answers, err
}

// record takes what the store answered over into the items, ends those that are gone, and
// adds what is to be reported to r.
func (s *Scheduler) record(items []Item, c call, r *reports) {
	verbose, fresh := s.Verbose(), false
	retryAt := s.retryAt(c.failures + 1) // one for all: what failed together is asked for together
	calls := []Call{c.report}            // the first report has it
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
		if held && (verbose || found.Late || found.Err != nil) && s.beginReport(i) {
			fresh = true
			r.renewals = append(r.renewals, found)
		}
	}
	if fresh { // else all are still being reported
		r.calls = append(r.calls, calls...)
	}
}

// retryAt is when to renew again what has failed so many times in a row.
func (s *Scheduler) retryAt(failures int) clock.Instant {
	return s.Clock.Now() + retry.Delay(failures, min(retry.DelayMost, s.periodOf(s.TTL)/4))
}

// planNext plans the renewal after one that was answered: at retryAt where it failed.
// Nothing is planned for an item that is over.
func (s *Scheduler) planNext(i Item, start clock.Moment, answer driver.Renewal, held, fixed bool, retryAt clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := i.Entry()
	switch {
	case answer.Err != nil && e.place == 0: // its end has cancelled the call, which says nothing of the store
		if e.err == nil {
			e.err = retry.ErrNoAnswer
		}
	case answer.Err != nil:
		e.failures++
		e.err = retry.ToReport(e.err, answer.Err)
		e.renewAt = retryAt
	case held:
		e.failures, e.err = 0, nil
		if fixed && e.checked == 0 {
			e.checked = max(s.periodOf(s.TTL), 1)
		}
		if e.renewAt == 0 { // else somebody hurried meanwhile, and it is due again
			period := cmp.Or(e.checked, s.periodOf(answer.ValidFor))
			e.renewAt = s.onGrid(start.Mono+period, period)
		}
	}
}

// complete ends a batch and plans its items again.
func (s *Scheduler) complete(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.end()
	s.pace.underWay--
	for _, i := range b.items {
		i.Entry().batch = nil
		s.renewAt(i, i.Entry().renewAt)
	}
	s.arm(s.Clock.Now()) // others may wait for this one to end
}

// reports are calls and renewals that are recorded, and not reported yet.
type reports struct {
	calls    []Call
	renewals []Report
}

// report reports what was recorded.
func (s *Scheduler) report(r *reports) {
	s.called(r.calls)
	for _, found := range r.renewals {
		s.Renewed(found)
		s.endReport(found.Item)
	}
}

func (s *Scheduler) called(calls []Call) {
	for _, c := range calls {
		s.Called(context.Background(), c)
	}
}

// beginReport returns false where a renewal of an item is still being reported.
func (s *Scheduler) beginReport(i Item) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := !i.Entry().reporting
	i.Entry().reporting = true
	return begun
}

func (s *Scheduler) endReport(i Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.Entry().reporting = false
}
