package adapter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// maxWait bounds WAIT: a replica that lags by more does not count.
const maxWait = time.Second

// Guard returns what call returns, or ctx's error as soon as ctx ends. No client
// library honours a context in every state (while it dials for another caller,
// while its queue is full), so call runs in a goroutine of its own if ctx can
// end. That goroutine ends when the client library returns; what it returns
// after ctx has ended is dropped.
func Guard[T any](ctx context.Context, call func() T) (T, error) {
	if ctx.Done() == nil {
		return call(), nil
	}
	answer := make(chan T, 1)
	go func() { answer <- call() }()
	select {
	case v := <-answer:
		return v, nil
	case <-ctx.Done():
	}
	select {
	case v := <-answer: // both were ready: an answer is worth more than an end
		return v, nil
	default:
		var none T
		return none, ctx.Err()
	}
}

// Fail returns one Result with err for each of n calls.
func Fail(n int, err error) []redishold.Result {
	results := make([]redishold.Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// NotSent says that cause kept a call from being sent.
func NotSent(cause error) error {
	return fmt.Errorf("%w: %w", driver.ErrNotExecuted, cause)
}

// Closed is the error of a call to a client that its owner has closed, which gave
// cause as its reason.
func Closed(cause error) error { return &closedError{cause} }

// closedError says what to do about it.
type closedError struct{ cause error }

// Error quotes the client library.
func (e *closedError) Error() string {
	return e.cause.Error() + ": locks need the client until the last of them is unlocked and Drain has returned"
}

// Unwrap returns the cause, and what it means for a lock.
func (e *closedError) Unwrap() []error {
	return []error{e.cause, driver.ErrClosed, driver.ErrRefused, driver.ErrNotExecuted}
}

// Classify turns the error of a client library, which is no reply of the
// server, into what package redishold promises. unsent says that the call
// certainly was not sent.
func Classify(ctx context.Context, err error, unsent bool) error {
	ended := ended(ctx)
	switch {
	case unsent && ended != nil:
		return fmt.Errorf("%w: %w: %w", driver.ErrNotExecuted, ended, err)
	case unsent:
		return NotSent(err)
	case ended != nil && !errors.Is(err, ended):
		return fmt.Errorf("%w: %w", ended, err) // such as "i/o timeout" at ctx's deadline
	case ended == nil && isContext(err):
		// The context of another call that shared the connection, or a timeout of
		// the library's own. It must not pass for the end of this call's context.
		return fmt.Errorf("connection given up: %v", err) //nolint:errorlint // hidden on purpose
	default:
		return err
	}
}

// ended returns ctx's error once ctx is over. A socket deadline may fire a
// moment before ctx's own timer, hence the look at the clock.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return nil
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// NoScript reports whether err is the server's answer that it does not know a
// script, so that nothing was executed.
func NoScript(err error) bool {
	if err == nil {
		return false
	}
	var reply *redishold.ReplyError
	return errors.As(err, &reply) && strings.HasPrefix(reply.Text, "NOSCRIPT")
}

// Value checks that v, as a client library decoded it, consists of nil, int64,
// string and []any.
func Value(v any) (any, error) {
	switch v := v.(type) {
	case nil, int64, string:
		return v, nil
	case []any:
		for _, e := range v {
			if _, err := Value(e); err != nil {
				return nil, err
			}
		}
		return v, nil
	default:
		return nil, fmt.Errorf("script answered with a %T", v)
	}
}

// WaitMillis is the timeout of a WAIT within ctx, in milliseconds: short enough
// for its answer to arrive before ctx ends.
func WaitMillis(ctx context.Context) int64 {
	d := maxWait
	if end, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(end)*3/4)
	}
	return max(1, d.Milliseconds()) // 0 would wait for ever
}

// Acknowledged adds the answer to WAIT to the Result of a script: an error that
// starts with NOREPLICAS if fewer than want replicas acknowledged. The script's
// value stays, as the script did run.
func Acknowledged(r redishold.Result, wait redishold.Result, want int) redishold.Result {
	if r.Err != nil {
		return r
	}
	var reply *redishold.ReplyError
	switch n, ok := wait.Value.(int64); {
	case errors.As(wait.Err, &reply):
		r.Err = &redishold.ReplyError{Text: "NOREPLICAS WAIT failed: " + reply.Text}
	case wait.Err != nil:
		r.Err = wait.Err
	case !ok || n < int64(want):
		r.Err = &redishold.ReplyError{Text: fmt.Sprintf("NOREPLICAS %d of %d replicas acknowledged the write", n, want)}
	}
	return r
}
