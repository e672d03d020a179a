package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
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
		return last(ctx, answer)
	}
}

// last returns the answer that has come while ctx ended, which is worth more than an
// end, or ctx's error.
func last[T any](ctx context.Context, answer <-chan T) (T, error) {
	select {
	case v := <-answer:
		return v, nil
	default:
		return *new(T), ctx.Err()
	}
}

// Try is Guard for a call that may fail.
func Try[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	o, err := Guard(ctx, func() outcome {
		value, err := call()
		return outcome{value, err}
	})
	return o.value, cmp.Or(err, o.err)
}

// Answer is Guard for a Result, which carries ctx's error if that has ended.
func Answer(ctx context.Context, call func() redishold.Result) redishold.Result {
	r, err := Guard(ctx, call)
	r.Err = cmp.Or(err, r.Err)
	return r
}

// Fail returns one Result with err for each of n calls.
func Fail(n int, err error) []redishold.Result {
	return slices.Repeat([]redishold.Result{{Err: err}}, n)
}

// NotSent says that cause kept a call from being sent.
func NotSent(cause error) error {
	return unsent.Error(cause)
}

// Classify turns the error of a client library, which is no reply of the
// server, into what package redishold promises. unsent says that the call
// certainly was not sent.
func Classify(ctx context.Context, err error, unsent bool) error {
	ended := ended(ctx)
	if ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err) // such as "i/o timeout" at ctx's deadline
	}
	switch {
	case unsent:
		return NotSent(err)
	case ended == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		// The context of another call that shared the connection, or a timeout of
		// the library's own. It must not pass for the end of this call's context.
		return fmt.Errorf("connection given up: %v", err) //nolint:errorlint // hidden on purpose
	}
	return err
}

// ended returns ctx's error once ctx is over. A socket deadline may fire a
// moment before ctx's own timer; so the clock is read.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return nil
}

// NoScript reports whether err is the server's answer that it does not know a
// script, so that nothing was executed.
func NoScript(err error) bool { return code(err) == "NOSCRIPT" }

// code returns the first word of what the server answered, "" for no error and for
// others.
func code(err error) string {
	word, _, _ := strings.Cut(wire.ReplyText(err), " ")
	return word
}

// Value checks that v, as a client library decoded it, consists of nil, int64,
// string and []any.
func Value(v any) (any, error) {
	switch v := v.(type) {
	case nil, int64, string:
	case []any:
		for _, e := range v {
			if _, err := Value(e); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("script answered with a %T", v)
	}
	return v, nil
}

// WaitMillis is the timeout of a WAIT within ctx, in milliseconds: short enough
// for its answer to arrive before ctx ends.
func WaitMillis(ctx context.Context) int64 {
	d := maxWait
	if end, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(end)*3/4)
	}
	return max(1, d.Milliseconds()) // 0 would wait forever
}

// Acknowledge adds the answer to the one WAIT behind calls to their results: an error
// that starts with NOREPLICAS if fewer replicas than a call asks for acknowledged. The
// script's value stays, as the script did run.
func Acknowledge(calls []redishold.Call, results []redishold.Result, wait func() redishold.Result) {
	for i := range calls {
		if want := calls[i].Replicas; want > 0 && results[i].Err == nil {
			results[i].Err = unacknowledged(wait(), want)
		}
	}
}

// unacknowledged returns why an answer to WAIT is not what was wanted.
func unacknowledged(wait redishold.Result, want int) error {
	switch n, ok := wait.Value.(int64); {
	case wire.ReplyText(wait.Err) != "":
		return &redishold.ReplyError{Text: "NOREPLICAS WAIT failed: " + wire.ReplyText(wait.Err)}
	case wait.Err == nil && (!ok || n < int64(want)):
		return &redishold.ReplyError{Text: fmt.Sprintf("NOREPLICAS %d of %d replicas acknowledged the write", n, want)}
	}
	return wait.Err
}
