package kinds

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// latchCallTTL is the TTL of the idempotency key of a call for a latch. It is long, because
// package holdfast repeats such a call as long as its caller waits.
const latchCallTTL = 5 * time.Minute

func (c Counts) latch(ctx context.Context, name string, step Step) (Answer, error) {
	return c.store.Do(ctx, name, Counter{c.store.Layout, "latch", layout.LatchChannel}, step)
}

// SetCount sets the count of the latch called name to n, and returns true. If the latch has a
// count already, SetCount changes nothing and returns false. A repeat with the same parameter
// `call` within five minutes returns the first result again. SetCount returns driver.ErrRefused
// for a count below 1, and driver.ErrMismatch for a name that is not a latch.
func (c Counts) SetCount(ctx context.Context, name, call string, n int64) (bool, error) {
	if n < 1 {
		return false, wire.Refused("a latch cannot be set to %d", n)
	}
	number := []string{strconv.FormatInt(n, 10)}
	answer, err := c.latch(ctx, name, Step{Script: "latch_set", Number: number, ID: call, CallTTL: latchCallTTL, Publish: true, MayFail: true})
	return answer.Yes, err
}

// CountDown lowers the count of the latch called name by one. When the count is 0, the latch is
// open. An open latch stays open. A repeat with the same parameter `call` within five minutes
// changes nothing. CountDown returns driver.ErrMismatch for a name that is not a latch.
func (c Counts) CountDown(ctx context.Context, name, call string) error {
	_, err := c.latch(ctx, name, Step{Script: "latch_down", ID: call, CallTTL: latchCallTTL, Publish: true})
	return err
}

// Count returns the count of the latch called name; 0 means that the latch is open. Count
// returns driver.ErrMismatch for a name that is not a latch.
func (c Counts) Count(ctx context.Context, name string) (int64, error) {
	answer, err := c.latch(ctx, name, Step{Script: "latch_count"})
	return answer.Number, err
}

// LatchWaiter returns a Waiter that waits until the latch called name may have opened. Its first
// Wait returns when the server has confirmed the subscription. Every later Wait returns when a
// message was received since the last Wait. The caller calls Count after each Wait.
func (c Counts) LatchWaiter(name string) driver.Waiter {
	return &latchWaiter{Waiter: c.store.Topics.CounterWaiter(layout.LatchChannel(c.store.Keys(name)))}
}

// latchWaiter is a Waiter that stores the version of its channel for its next Wait.
type latchWaiter struct {
	*waiting.Waiter
	version uint64
}

// Wait returns when a message was received since the last Wait.
func (w *latchWaiter) Wait(ctx context.Context, _ driver.Outcome) (driver.Outcome, error) {
	if _, err := w.Waiter.Wait(ctx, driver.Outcome{Ahead: w.version}); err != nil {
		return driver.Outcome{}, err
	}
	w.version = w.Version() // the caller calls Count after this, so it misses no message
	return driver.Outcome{}, nil
}
