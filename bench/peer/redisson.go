package peer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	_ "embed" // the scripts
)

//go:embed redisson_acquire.lua
var redissonAcquire string

//go:embed redisson_release.lua
var redissonRelease string

//go:embed redisson_fair_acquire.lua
var redissonFairAcquire string

//go:embed redisson_fair_giveup.lua
var redissonFairGiveUp string

//go:embed redisson_fair_release.lua
var redissonFairRelease string

// redissonAsWritten is the algorithm that Redisson and its ports follow: try,
// subscribe, try again, then sleep until a message or the end of the holder's
// lease. It is written from the description of the protocol and lacks the
// watchdog, which would cost it a timer for each lock.
func redissonAsWritten() Spec {
	return Spec{
		Name: "redisson", Client: "go-redis", Role: Other, Can: []Ability{Waits, Queues},
		Open: func(_ context.Context, t Target) (Peer, error) {
			client := goRedis(t)
			return &redissonPeer{
				client: client, lease: time.Duration(t.TTL).Milliseconds(),
				id: rand.Text(), topics: newTopics(client),
				acquire: redis.NewScript(redissonAcquire), release: redis.NewScript(redissonRelease),
				fairAcquire: redis.NewScript(redissonFairAcquire), fairRelease: redis.NewScript(redissonFairRelease),
				fairGiveUp: redis.NewScript(redissonFairGiveUp),
			}, nil
		},
	}
}

type redissonPeer struct {
	client *redis.Client
	topics *topics
	lease  int64 // ms
	id     string
	number atomic.Int64

	acquire, release                     *redis.Script
	fairAcquire, fairRelease, fairGiveUp *redis.Script
}

// owner returns the name of one acquisition.
func (p *redissonPeer) owner() string {
	return p.id + ":" + strconv.FormatInt(p.number.Add(1), 10)
}

func (p *redissonPeer) Lock(ctx context.Context, key string) (Held, error) {
	owner := p.owner()
	channel := "redisson_lock__channel:{" + key + "}"
	try := func() (time.Duration, error) {
		return obstacle(p.acquire.Run(ctx, p.client, []string{key}, p.lease, owner))
	}
	if err := p.await(ctx, channel, try); err != nil {
		return nil, err
	}
	return &redissonHeld{p, p.release, []string{key, channel}, owner}, nil
}

// await tries until it has the lock.
func (p *redissonPeer) await(ctx context.Context, channel string, try func() (time.Duration, error)) error {
	left, err := try()
	if err != nil || left < 0 {
		return err
	}
	topic, err := p.topics.join(ctx, channel)
	if err != nil {
		return err
	}
	defer p.topics.leave(channel)
	for {
		left, err = try()
		if err != nil || left < 0 {
			return err
		}
		if err := topic.sleep(ctx, left); err != nil {
			return err
		}
	}
}

// obstacle reads the reply of an acquire: nil is success, a number is what is
// left of the lease that is in the way. Success is returned as -1.
func obstacle(reply *redis.Cmd) (time.Duration, error) {
	ms, err := reply.Int64()
	if errors.Is(err, redis.Nil) {
		return -1, nil
	}
	return time.Duration(max(ms, 0)) * time.Millisecond, err
}

func (p *redissonPeer) Close() {
	p.topics.close()
	_ = p.client.Close()
}

type redissonHeld struct {
	peer    *redissonPeer
	release *redis.Script
	keys    []string
	owner   string
}

func (h *redissonHeld) Unlock() error {
	args := []any{h.peer.lease, h.owner, time.Now().UnixMilli()}
	err := h.release.Run(context.Background(), h.peer.client, h.keys, args...).Err()
	if errors.Is(err, redis.Nil) {
		return fmt.Errorf("redisson: %w", errNotHeld)
	}
	return err
}
