package plaintest

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockLibrary makes the locks of bsm/redislock.
type redislockLibrary struct{ client *redislock.Client }

func newRedislock(client *redis.Client) library { return redislockLibrary{redislock.New(client)} }

func (l redislockLibrary) lock(name string) foreignLock {
	return &redislockLock{client: l.client, name: name}
}

type redislockLock struct {
	client *redislock.Client
	name   string
	held   *redislock.Lock // nil before the first success: its methods stand that
}

func (l *redislockLock) acquire(ctx context.Context, wait, lease time.Duration, value string) (bool, error) {
	options := &redislock.Options{Token: value}
	if wait > 0 {
		options.RetryStrategy = redislock.LinearBackoff(pause)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	lock, err := l.client.Obtain(ctx, l.name, lease, options)
	if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.held = lock
	return true, nil
}

func (l *redislockLock) release(ctx context.Context) error { return l.held.Release(ctx) }

func (l *redislockLock) stranger(context.Context) error {
	return errors.New("redislock: a Lock cannot be made without obtaining it")
}

func (l *redislockLock) extend(ctx context.Context, lease time.Duration) error {
	if l.held == nil {
		return redislock.ErrLockNotHeld
	}
	return l.held.Refresh(ctx, lease, nil)
}

func (l *redislockLock) isHeld(ctx context.Context) (bool, error) {
	if l.held == nil {
		return false, nil
	}
	left, err := l.held.TTL(ctx)
	return left > 0, err
}
