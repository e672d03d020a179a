package waiting

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Waiter waits for messages on one channel. All Waiters with the same Key share a subscription,
// which ends when the last of these Waiters is closed, or lingerFor later.
type Waiter struct {
	topics *Topics
	key    Key
	topic  *topic // nil before the first Wait and after Close
	sleeps poller // used if waiters poll, or if the user may not subscribe
}

// Waiter returns a Waiter for a client on a channel.
func (ts *Topics) Waiter(key Key) *Waiter { return &Waiter{topics: ts, key: key} }

// CounterWaiter returns a Waiter for a counter, which belongs to no client.
func (ts *Topics) CounterWaiter(channel string) *Waiter { return ts.Waiter(Key{Channel: channel}) }

// Version returns the current version of the topic. The caller reads it before a Try and
// puts it into Outcome.Ahead, so that Wait waits for messages after that version.
func (w *Waiter) Version() uint64 { return w.topics.Version(w.key) }

// Wait returns when it is time for the next Try. The parameter `last` is the Outcome of the
// last Try. Wait returns after a message that came since the last Try. It also returns if the
// subscription began only after the last Try, because an earlier message may be lost. If
// waiters poll, or the user may not subscribe, Wait returns after a sleep; the sleeps become
// longer.
func (w *Waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if w.topics.Poll > 0 {
		return driver.Outcome{}, w.sleeps.wait(ctx, w.topics.Poll, last)
	}
	if w.topic == nil {
		w.topic = w.topics.join(w.key)
	}
	ahead, _ := last.Ahead.(uint64)
	for {
		changed, at, turn, err := w.topics.retryTime(w.topic, ahead)
		if wire.Means(err, wire.MeansNoRight, wire.MeansNoCommand) {
			return driver.Outcome{}, w.sleeps.wait(ctx, pollMost, last)
		}
		done := false
		if err == nil {
			done, err = waitUntil(ctx, at, changed)
		}
		if done || err != nil {
			return driver.Outcome{Turn: done && turn}, err
		}
	}
}

// waitUntil waits until the given time and returns true. If the channel `changed` is closed
// before that time, it returns false. If ctx ends before that time, it returns ctx's error. If
// the given time is zero, it waits only for `changed` and for ctx.
func waitUntil(ctx context.Context, at time.Time, changed <-chan struct{}) (bool, error) {
	var timer <-chan time.Time
	if !at.IsZero() {
		left := time.Until(at)
		if left <= 0 {
			return true, nil
		}
		timer = time.After(left)
	}
	select {
	case <-timer:
		return true, nil
	case <-changed:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Close removes the waiter from its topic.
func (w *Waiter) Close() {
	if w.topic != nil {
		w.topics.leaveLater(w.topic)
		w.topic = nil
	}
}

const (
	pollFirst = time.Millisecond
	pollMost  = 128 * time.Millisecond // the maximal sleep if the user may not subscribe; as in Redisson's spin lock
)

// poller waits by sleeping: for a millisecond at first, then for twice as long each time up to
// a maximum, with jitter so that waiters do not return at the same time.
type poller struct{ last time.Duration }

// wait sleeps once, and returns nil. The sleep ends early if the lease of the holder ends. If
// ctx ends, wait returns ctx's error.
func (w *poller) wait(ctx context.Context, most time.Duration, last driver.Outcome) error {
	w.last = min(max(2*w.last, pollFirst), most)
	nap := w.last - rand.N(w.last/4+1) //nolint:gosec // spreads load, protects nothing
	if last.RetryAfter > 0 {
		nap = min(nap, last.RetryAfter)
	}
	retry.Sleep(ctx, nap)
	return ctx.Err()
}
