package redishold

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Waiter returns a Waiter for c. All Waiters for one name share a subscription,
// which ends with the last of them.
func (b *Backend) Waiter(c driver.Claim) driver.Waiter {
	if f, ok := b.form(c).(fair); ok && b.topics.poll == 0 {
		return b.fairWaiter(f, c)
	}
	return &waiter{topics: &b.topics, channel: b.form(c).channel(b.layout.place(c.Name), c)}
}

// waiter waits for messages about one name.
type waiter struct {
	topics  *topics
	channel string
	topic   *topic // nil before the first Wait and after Close
	naps    poller // instead of messages
}

// Wait returns when something was heard since the Try that last came from, and also
// when listening began only after that Try.
//
// Where there are no messages to be had, it returns after ever longer sleeps.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	return driver.Outcome{}, w.wait(ctx, last)
}

func (w *waiter) wait(ctx context.Context, last driver.Outcome) error {
	if w.topics.poll > 0 {
		w.naps.most = w.topics.poll
		return w.naps.wait(ctx, last)
	}
	if w.topic == nil {
		w.topic = w.topics.join(w.channel)
	}
	ahead, _ := last.Ahead.(uint64)
	for {
		changed, from, err := w.topics.look(w.topic, ahead)
		if isForbidden(err) {
			w.naps.most = pollMost
			return w.naps.wait(ctx, last)
		}
		if err != nil {
			return err
		}
		if done, err := until(ctx, from, changed); done || err != nil {
			return err
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
		timer := time.NewTimer(left)
		defer timer.Stop()
		turn = timer.C
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
func (w *waiter) Close() {
	if w.topic != nil {
		w.topics.leave(w.topic)
		w.topic = nil
	}
}

// subscribe listens on everything that stands for channel, and returns when the
// server has confirmed it all.
func (b *Backend) subscribe(ctx context.Context, channel string, notify func(Notice)) ([]Subscription, error) {
	info, err := b.ask(ctx)
	if err != nil {
		return nil, err
	}
	var subs []Subscription
	for _, ch := range info.channels(channel) {
		sub, err := b.conn.Subscribe(ctx, ch, heardAfterFirst(notify))
		if isForbidden(err) {
			b.warnDeaf(err)
		}
		if ch.Sharded && (isForbidden(err) || errors.Is(err, errors.ErrUnsupported)) {
			continue // the classic channel hears all but some Redisson versions
		}
		if err != nil {
			closeAll(subs)
			return nil, err
		}
		subs = append(subs, sub)
	}
	return subs, nil
}

// isForbidden says that the user lacks the right to listen.
func isForbidden(err error) bool {
	var reply *ReplyError
	return errors.As(err, &reply) && meaningOf(reply.Text) == meansNoRight
}

// heardAfterFirst leaves out the first confirmation of a subscription, which
// may come after Subscribe has returned: it says nothing new, and would cost
// every waiter a vain Try.
func heardAfterFirst(notify func(Notice)) func(Notice) {
	var confirmed atomic.Bool
	return func(n Notice) {
		if n.Subscribed && confirmed.CompareAndSwap(false, true) {
			return
		}
		notify(n)
	}
}
