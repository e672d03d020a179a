package redishold

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/fair"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Waiter returns a Waiter for c. All Waiters of a client for one name share a subscription, which
// ends when the last of these Waiters is closed.
func (b *Backend) Waiter(c driver.Claim) driver.Waiter {
	f, k := b.forms.of(c), b.layout.Keys(c.Name)
	if lock, ok := f.(*fair.Lock); ok && b.topics.Poll == 0 {
		return lock.Waiter(&b.topics, k, c)
	}
	return b.topics.Waiter(waiting.Key{Channel: f.Channel(k, c), Client: c.Client})
}

// subscribe subscribes to a channel. In a cluster that has sharded channels, it also subscribes
// to the sharded channel of the same name. It returns when the server has confirmed each
// subscription.
func (b *Backend) subscribe(ctx context.Context, channel string, notify func(Notice)) ([]waiting.Subscription, error) {
	info, err := b.ask(ctx)
	if err != nil {
		return nil, err
	}
	var subs []waiting.Subscription
	for _, ch := range channels(info, channel) {
		sub, err := b.conn.Subscribe(ctx, ch, skipFirst(notify))
		if wire.Means(err, wire.MeansNoRight, wire.MeansNoCommand) {
			b.warnCannotListen(err)
		}
		if ch.Sharded && (wire.Means(err, wire.MeansNoRight, wire.MeansNoCommand) || errors.Is(err, errors.ErrUnsupported)) {
			continue // the classic channel is enough, except for some versions of Redisson
		}
		if err != nil {
			waiting.CloseAll(subs)
			return nil, err
		}
		subs = append(subs, sub)
	}
	return subs, nil
}

// listeners returns how many clients listen on a channel through the Conn, or 0 if that is unknown.
// In a cluster a client may listen on two channels of that name. The larger number counts, as in
// the answer to a release.
func (b *Backend) listeners(info ServerInfo, channel string) (n int) {
	if b.counter == nil {
		return 0
	}
	for _, ch := range channels(info, channel) {
		n = max(n, b.counter.Listeners(ch))
	}
	return n
}

// skipFirst returns a function that passes each Notice on to `notify`, except the first
// confirmation of the subscription. This confirmation may come after Subscribe has returned,
// and would then cause an unnecessary Try of every waiter.
func skipFirst(notify func(Notice)) func(Notice) {
	var confirmed atomic.Bool
	return func(n Notice) {
		if n.Subscribed && confirmed.CompareAndSwap(false, true) {
			return
		}
		notify(n)
	}
}
