package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	reopenFirst = 250 * time.Millisecond // the pause after the first attempt to reach a store
	reopenMost  = 2 * time.Second
)

// OpenWaiting is openLocks, again and again while the store cannot be reached: until limit
// is over, however long if that is negative, or until ctx ends.
func (o *Connection) OpenWaiting(ctx context.Context, r Request, limit time.Duration, env output.Environment, report *output.Reporter) (*Store, error) {
	began := time.Now()
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		s, err := o.openLocks(ctx, r, env, report)
		left := limit - time.Since(began)
		var exit *output.ExitError
		if !errors.As(err, &exit) || exit.Code != output.ExitUnreachable || limit >= 0 && left <= 0 {
			return s, err
		}
		if pause == reopenFirst {
			report.Line(output.LevelNotice, fmt.Sprintf("waiting for the store: %v", err))
		}
		if limit >= 0 {
			pause = min(pause, left)
		}
		if !retry.Sleep(ctx, pause) {
			return nil, err
		}
	}
}

// A store that has not answered so long after it was connected to is asked what is wrong,
// and once more where it says so: a leader may just be elected.
const (
	answerGrace   = 800 * time.Millisecond
	electionGrace = 600 * time.Millisecond
)

// UnlessInTrouble calls work, and ends its context once the servers have said why they
// cannot answer. If work goes on all the same, it only prints the reason. A store that says
// nothing at all is waited for.
func (s *Store) UnlessInTrouble(ctx context.Context, report *output.Reporter, goesOn bool, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		switch err := s.lastingTrouble(ctx, report); {
		case err == nil:
		case goesOn:
			report.Once(output.LevelNotice, err.Error())
		default:
			cancel(&output.ExitError{Code: output.ExitUnreachable, Err: err})
		}
	}()
	err := work(ctx)
	var why *output.ExitError
	if err != nil && errors.As(context.Cause(ctx), &why) {
		err = why
	}
	cancel(nil)
	<-done
	return err
}

// lastingTrouble returns why the store does not answer, nil if it is not known, or if ctx
// ended first. It says so where it is not known.
func (s *Store) lastingTrouble(ctx context.Context, report *output.Reporter) error {
	if !retry.Sleep(ctx, answerGrace) {
		return nil
	}
	if s.troubleNow(ctx, report) == nil {
		return nil
	}
	if !retry.Sleep(ctx, electionGrace) {
		return nil
	}
	return s.troubleNow(ctx, report)
}

// troubleNow is one attempt of lastingTrouble.
func (s *Store) troubleNow(ctx context.Context, report *output.Reporter) error {
	limited, cancel := context.WithTimeout(ctx, electionGrace/2)
	defer cancel()
	err := s.Trouble(limited)
	if errors.Is(err, open.ErrReadOnly) { // to look at locks is possible
		return nil
	}
	if err == nil && limited.Err() != nil && ctx.Err() == nil {
		report.Once(output.LevelNotice, "the store does not answer")
	}
	return err
}
