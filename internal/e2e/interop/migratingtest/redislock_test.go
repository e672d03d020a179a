package migratingtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/rollover"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

func reportWithRedislock(ctx context.Context, locks *redislock.Client, report func(context.Context) error) error {
	lock, err := locks.Obtain(ctx, "report", time.Minute, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return err
	}
	err = report(ctx) // must be done within a minute
	return errors.Join(err, lock.Release(context.WithoutCancel(ctx)))
}

func reportWithHoldfast(ctx context.Context, locker *holdfast.Locker, report func(context.Context) error) error {
	return locker.Mutex("report").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error {
		return report(ctx) // may take hours: the lease is renewed
	})
}

func TestFromRedislock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks, locker := redislock.New(client(t, server)), newShop(client(t, server), nil).locker
	t.Cleanup(func() { must.Drain(t, locker) })
	rollover.Test(t,
		func(ctx context.Context, report func(context.Context) error) error {
			return reportWithRedislock(ctx, locks, report)
		},
		func(ctx context.Context, report func(context.Context) error) error {
			return reportWithHoldfast(ctx, locker, report)
		},
	)
}
