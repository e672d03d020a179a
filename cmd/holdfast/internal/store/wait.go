package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	reopenFirst = 250 * time.Millisecond // the pause after the first attempt to reach a store
	reopenMost  = 2 * time.Second        // the longest pause

	// leastAttempt is how long an attempt may take at least: a round trip to a store that is near.
	leastAttempt = 50 * time.Millisecond
)

// waitFor repeats `attempt` while the store cannot be reached, until the time `limit` is over or
// ctx ends. If `limit` is 0 there is one attempt, and if it is negative there is no limit. The
// function `attempt` gets the rest of the limit, or 0 if only its own limits count.
func waitFor(ctx context.Context, limit time.Duration, report *output.Reporter, attempt func(left time.Duration) (*open.Store, error)) (*open.Store, error) {
	began := time.Now()
	left := func() time.Duration {
		if limit <= 0 {
			return 0
		}
		return max(limit-time.Since(began), leastAttempt)
	}
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		s, err := attempt(left())
		over := limit >= 0 && time.Since(began) >= limit
		exit, failed := errors.AsType[*output.ExitError](err)
		if !failed || exit.Code != output.ExitUnreachable || over {
			return s, err
		}
		if pause == reopenFirst {
			report.Line(output.LevelNotice, fmt.Sprintf("waiting for the store: %v", err))
		}
		if limit >= 0 {
			pause = min(pause, max(limit-time.Since(began), 0))
		}
		if !retry.Sleep(ctx, pause) {
			return nil, err
		}
	}
}

// If the store has not answered for answerGrace, its servers are asked what is wrong. If they
// report trouble, they are asked again after electionGrace: they may only be electing a leader.
const (
	answerGrace   = 800 * time.Millisecond
	electionGrace = 600 * time.Millisecond
)

// UnlessInTrouble calls the function `work`. If the servers report why no lock can be taken, it
// ends the context of `work`, and returns the reason. If goesOn is true, it only prints the
// reason, and `work` goes on. If the servers report nothing, `work` also goes on.
func UnlessInTrouble(ctx context.Context, s *open.Store, report *output.Reporter, goesOn bool, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		switch err := lastingTrouble(ctx, s, report); {
		case err == nil:
		case goesOn:
			report.Once(output.LevelNotice, err.Error())
		default:
			cancel(&output.ExitError{Code: output.ExitUnreachable, Err: err})
		}
	})
	err := work(ctx)
	if why, ok := errors.AsType[*output.ExitError](context.Cause(ctx)); ok && err != nil {
		err = why
	}
	cancel(nil)
	asking.Wait()
	return err
}

// lastingTrouble returns why the store does not answer. It returns nil if the reason is unknown,
// if locks can be read, or if ctx ends before. If no server answers, it prints a message.
func lastingTrouble(ctx context.Context, s *open.Store, report *output.Reporter) (err error) {
	for _, grace := range []time.Duration{answerGrace, electionGrace} {
		if !retry.Sleep(ctx, grace) {
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, electionGrace/2)
		err = s.Trouble(limited)
		if err == nil && limited.Err() != nil && ctx.Err() == nil {
			report.Once(output.LevelNotice, "the store does not answer")
		}
		cancel()
		if err == nil || errors.Is(err, open.ErrReadOnly) { // locks can be read
			return nil
		}
	}
	return err
}
