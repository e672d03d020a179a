package waiting

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Waiter waits for messages about one name. All Waiters for one name share a
// subscription, which ends with the last of them.
type Waiter struct {
	topics  *Topics
	channel string
	topic   *topic // nil before the first Wait and after Close
	naps    poller // instead of messages
}

// Waiter returns one for the name of a channel.
func (ts *Topics) Waiter(channel string) *Waiter { return &Waiter{topics: ts, channel: channel} }

// Version returns what a Try is to have seen so that Wait waits for what comes after it.
func (w *Waiter) Version() uint64 { return w.topics.Version(w.channel) }

// Wait returns when something was heard since the Try that last came from, and also
// when listening began only after that Try.
//
// Where there are no messages to be had, it returns after ever longer sleeps.
func (w *Waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if w.topics.Poll > 0 {
		return driver.Outcome{}, w.naps.wait(ctx, w.topics.Poll, last)
	}
	if w.topic == nil {
		w.topic = w.topics.join(w.channel)
	}
	ahead, _ := last.Ahead.(uint64)
	for {
		changed, from, err := w.topics.state(w.topic, ahead)
		if wire.Means(err, wire.MeansNoRight, wire.MeansNoCommand) {
			return driver.Outcome{}, w.naps.wait(ctx, pollMost, last)
		}
		done := false
		if err == nil {
			done, err = until(ctx, from, changed)
		}
		if done || err != nil {
			return driver.Outcome{}, err
		}
	}
}

// until waits until from, if that is not zero, and returns true, unless changed
// is closed or ctx ends before that.
func until(ctx context.Context, from time.Time, changed <-chan struct{}) (bool, error) {
	var turn <-chan time.Time
	if !from.IsZero() {
		left := time.Until(from)
		if left <= 0 {
			return true, nil
		}
		turn = time.After(left)
	}
	select {
	case <-turn:
		return true, nil
	case <-changed:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Close gives up the waiter's share of the subscription.
func (w *Waiter) Close() {
	if w.topic != nil {
		w.topics.leave(w.topic)
		w.topic = nil
	}
}

const (
	pollFirst = time.Millisecond
	pollMost  = 128 * time.Millisecond // where the user may not listen; as Redisson's spin lock
)

// poller waits by sleeping: a millisecond at first, twice as long each time up to
// most, with jitter so that waiters do not return together.
type poller struct{ last time.Duration }

// wait returns nil after the next sleep, or earlier if the holder's lease ends.
func (w *poller) wait(ctx context.Context, most time.Duration, last driver.Outcome) error {
	w.last = min(max(2*w.last, pollFirst), most)
	nap := w.last - rand.N(w.last/4+1) //nolint:gosec // spreads load, protects nothing
	if last.RetryAfter > 0 {
		nap = min(nap, last.RetryAfter)
	}
	retry.Sleep(ctx, nap)
	return ctx.Err()
}
