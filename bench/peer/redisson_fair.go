package peer

import (
	"context"
	"time"
)

// fairWait is Redisson's default of "fairLockWaitTimeout": after it a waiter counts
// as dead.
const fairWait = 5 * time.Minute

// LockFair waits in Redisson's queue, each waiter on a channel of its own.
func (p *redissonPeer) LockFair(ctx context.Context, key string) (Held, error) {
	owner := p.owner()
	channel := "redisson_lock__channel:{" + key + "}"
	keys := []string{key, "redisson_lock_queue:{" + key + "}", "redisson_lock_timeout:{" + key + "}"}
	try := func() (time.Duration, error) {
		return obstacle(p.fairAcquire.Run(ctx, p.client, keys,
			p.lease, owner, fairWait.Milliseconds(), time.Now().UnixMilli()))
	}
	if err := p.await(ctx, channel+":"+owner, try); err != nil {
		p.giveUp(keys, owner)
		return nil, err
	}
	return &redissonHeld{p, p.fairRelease, append(keys, channel), owner}, nil
}

func (p *redissonPeer) giveUp(keys []string, owner string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.fairGiveUp.Run(ctx, p.client, keys[1:], owner, fairWait.Milliseconds()).Err()
}
