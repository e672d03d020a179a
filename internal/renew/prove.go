package renew

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// ErrOver is the error of Prove if the item was over before the store confirmed the claim.
var ErrOver = errors.New("the lease is over")

// Prove renews an item in its own call, which begins after Prove was called. So the store
// records the present values of the claim, and confirms that it still has the claim. Prove
// tries until ctx ends. If the parameter `failures` is not 0, it also stops after so many
// failed calls. No other call renews the item until Prove returns, so that no older claim
// arrives after the one that Prove sends.
//
// The error is one for which retry.Final is true, ErrOver, the error of the last call after too
// many failures, or the error of ctx. If Prove fails, the next renewal sends the present claim
// again.
func (s *Scheduler) Prove(ctx context.Context, i Item, failures int) error {
	if err := s.pause(ctx, i); err != nil {
		return err
	}
	defer s.resume(i)
	var loop retry.Loop
	for loop.Next(ctx) {
		err := s.prove(ctx, i, loop.Failures())
		if err == nil || retry.Final(err) || errors.Is(err, ErrOver) {
			return err
		}
		loop.Failed(err)
		if failures > 0 && loop.Failures() >= failures {
			return err
		}
	}
	return loop.Err(ctx)
}

// prove makes one attempt of Prove.
func (s *Scheduler) prove(ctx context.Context, i Item, failures int) error {
	start := s.Clock.Read()
	claims := []driver.Claim{i.Claim(start.Mono)}
	answers, err := s.ask(ctx, claims, failures)
	c := call{start: start, answers: answers, err: err}
	answer := c.answer(0)
	_, held := i.Answered(start, answer)
	// Called comes after Answered has recorded the answer, because Called may be slow.
	defer s.Called(ctx, Call{Claim: &claims[0], Took: s.Clock.Now() - start.Mono, Err: c.failure()})
	switch {
	case retry.Gone(answer.Err):
		i.Gone(answer.Err, func() {})
	case !held && !retry.Final(answer.Err):
		return ErrOver
	}
	return answer.Err
}

// pause keeps an item from being renewed until resume. It waits for the end of a call that is
// under way, because that call has an older claim.
func (s *Scheduler) pause(ctx context.Context, i Item) error {
	s.mu.Lock()
	e := i.Entry()
	e.paused = true
	b := e.batch
	s.mu.Unlock()
	if b == nil {
		return nil
	}
	select {
	case <-b.ctx.Done():
		return nil
	case <-ctx.Done():
		s.resume(i)
		return retry.ContextError(ctx)
	}
}

func (s *Scheduler) resume(i Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := i.Entry()
	e.paused = false
	s.renewAt(i, e.renewAt)
}
