package peer

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// usual is the back-off of redislock's own example. It has no default.
const usual = 100 * time.Millisecond

func redislockGoRedis() Spec {
	return Spec{
		Name: "redislock", Client: "go-redis", Role: Other, Can: []Ability{Waits},
		Open: func(_ context.Context, t Target) (Peer, error) { return newRedislock(t, usual), nil },
	}
}

func redislockQuick() Spec {
	return Spec{
		Name: "redislock-10ms", Client: "go-redis", Role: Other, Full: true, Can: []Ability{Waits},
		Open: func(_ context.Context, t Target) (Peer, error) { return newRedislock(t, quick), nil },
	}
}

type redislockPeer struct {
	client  *redis.Client
	locks   *redislock.Client
	ttl     time.Duration
	options *redislock.Options
}

func newRedislock(t Target, backoff time.Duration) *redislockPeer {
	client := goRedis(t)
	return &redislockPeer{
		client: client, locks: redislock.New(client), ttl: time.Duration(t.TTL),
		options: &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)},
	}
}

func (p *redislockPeer) Lock(ctx context.Context, key string) (Held, error) {
	// A context without a deadline would be given one of the lease, of which the
	// library warns in no other way than by failing.
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Hour)
		defer cancel()
	}
	lock, err := p.locks.Obtain(ctx, key, p.ttl, p.options)
	if err != nil {
		return nil, err
	}
	return (*redislockHeld)(lock), nil
}

func (p *redislockPeer) Close() { _ = p.client.Close() }

type redislockHeld redislock.Lock

func (h *redislockHeld) Unlock() error {
	return (*redislock.Lock)(h).Release(context.Background())
}
