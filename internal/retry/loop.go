package retry

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
)

// Loop repeats a call until it has an answer that the caller accepts:
//
//	var loop retry.Loop
//	for loop.Next(ctx) {
//		err := call()
//		if err == nil || retry.Final(err) {
//			return err
//		}
//		loop.Failed(err)
//	}
//	return loop.Err(ctx)
//
// The zero Loop is ready to use. If a call before the loop has failed, call Failed first.
type Loop struct {
	failures int
	report   error // see ToReport
}

// Next pauses after a failure, and reports whether to make the call. It returns false when
// ctx has ended.
func (l *Loop) Next(ctx context.Context) bool {
	if l.failures == 0 {
		return ctx.Err() == nil
	}
	return Sleep(ctx, Delay(l.failures, DelayMost))
}

// Failed records that the call failed with err.
func (l *Loop) Failed(err error) {
	l.failures++
	l.report = ToReport(l.report, err)
}

// Failures returns how often the call has failed.
func (l *Loop) Failures() int { return l.failures }

// Err returns ctx's error, joined with the error of the store that ToReport chose, if there is
// one. It is for a loop that ended because ctx has ended.
func (l *Loop) Err(ctx context.Context) error {
	if l.report == nil {
		return ContextError(ctx)
	}
	return fmt.Errorf("%w; the store's last error: %w", ContextError(ctx), l.report)
}

// Do repeats a call until it succeeds, ctx ends, or Final is true for its error. Each attempt
// has a context of its own, with the time limit that Timeout returns.
func Do(ctx context.Context, ttl time.Duration, call func(context.Context) error) error {
	var loop Loop
	for loop.Next(ctx) {
		err := attempt(ctx, Timeout(ttl, loop.Failures()), call)
		if err == nil || Final(err) {
			return err
		}
		loop.Failed(err)
	}
	return loop.Err(ctx)
}

func attempt(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	bound := deadline.New(ctx, time.Now().Add(limit))
	defer bound.End()
	return call(bound)
}
