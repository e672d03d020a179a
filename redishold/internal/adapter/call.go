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

// maxWait is the longest timeout of a WAIT. A replica that acknowledges the write later does
// not count.
const maxWait = time.Second

// waitLate is how long the reply to a WAIT may come after the timeout of that WAIT, because a
// server without other work checks timeouts only ten times a second.
const waitLate = 120 * time.Millisecond

// Guard returns the result of the function `call`, or ctx's error as soon as ctx ends. Each
// client library ignores the end of a context in some states, for example while it dials for
// another caller, or while its queue is full. So `call` runs in a goroutine of its own if ctx
// can end. That goroutine ends when the client library returns. A result that comes after the
// end of ctx is dropped.
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

// last returns the answer if it arrived at the same time as the end of ctx, because an
// answer says more than ctx's error. Otherwise it returns ctx's error.
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

// Answer is Guard for a Result. If ctx has ended, the Result has ctx's error.
func Answer(ctx context.Context, call func() redishold.Result) redishold.Result {
	r, err := Guard(ctx, call)
	r.Err = cmp.Or(err, r.Err)
	return r
}

// Fail returns one Result with err for each of n calls.
func Fail(n int, err error) []redishold.Result {
	return slices.Repeat([]redishold.Result{{Err: err}}, n)
}

// Classify returns the error that redishold.Result promises for the error of a client library.
// The parameter err must not be an error reply of the server. If `notSent` is true, the call was
// certainly not sent.
func Classify(ctx context.Context, err error, notSent bool) error {
	ended := ended(ctx)
	if ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err) // err is, for example, "i/o timeout" at ctx's deadline
	}
	switch {
	case notSent:
		return unsent.Error(err)
	case ended == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		// The error is from the context of another call on the same connection, or from a
		// timeout of the library. The caller must not take the error for the end of its own
		// context.
		return fmt.Errorf("connection given up: %v", err) //nolint:errorlint // hidden on purpose
	}
	return err
}

// ended returns ctx's error if ctx has ended, otherwise nil. The deadline of a socket may
// fire a moment before the timer of ctx, so ended also compares ctx's deadline with the clock.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return nil
}

// NoScript reports whether err is the reply NOSCRIPT: the server does not know the script,
// and has executed nothing.
func NoScript(err error) bool { return code(err) == "NOSCRIPT" }

// code returns the first word of an error reply of the server. It returns "" if err is nil
// or another error.
func code(err error) string {
	word, _, _ := strings.Cut(wire.ReplyText(err), " ")
	return word
}

// Value returns v if v consists only of nil, int64, string and []any. Otherwise it returns an
// error. The parameter v is a reply that a client library has decoded.
func Value(v any) (any, error) {
	switch v := v.(type) {
	case nil, int64, string:
	case error:
		return nil, fmt.Errorf("script answered with an error inside an array: %w", v)
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

// WaitMillis returns the timeout, in milliseconds, for a WAIT that ctx limits. The timeout is
// so short that the reply to the WAIT should arrive before ctx ends.
func WaitMillis(ctx context.Context) int64 {
	d := maxWait
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		d = min(d, max(left/4, left-max(left/3, waitLate)))
	}
	return max(1, d.Milliseconds()) // with 0, WAIT would wait forever
}

// Acknowledge checks that enough replicas acknowledged the calls. The function `wait` returns
// the Result of the one WAIT that was sent after the calls. If fewer replicas acknowledged than
// a call asks for, the Result of that call gets an error that starts with NOREPLICAS. The Value
// of such a Result stays, because the script was executed.
func Acknowledge(calls []*redishold.Call, results []redishold.Result, wait func() redishold.Result) {
	for i := range calls {
		if want := calls[i].Replicas; want > 0 && results[i].Err == nil {
			results[i].Err = unacknowledged(wait(), want)
		}
	}
}

// unacknowledged returns an error if fewer than `want` replicas acknowledged the calls, or if
// the WAIT itself failed. Otherwise it returns nil. The parameter `wait` is the Result of the
// WAIT.
func unacknowledged(wait redishold.Result, want int) error {
	switch n, ok := wait.Value.(int64); {
	case wire.ReplyText(wait.Err) != "":
		return &redishold.ReplyError{Text: "NOREPLICAS WAIT failed: " + wire.ReplyText(wait.Err)}
	case wait.Err == nil && (!ok || n < int64(want)):
		return &redishold.ReplyError{Text: fmt.Sprintf("NOREPLICAS %d of %d replicas acknowledged the write", n, want)}
	}
	return wait.Err
}
