package jobtest

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// What follows is in docs/comparison.md, see TestByHandIsThatOfThePage.

var (
	renewScript   = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`)
	releaseScript = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
)

func sellByHand(ctx context.Context, rdb *redis.Client, sell func(context.Context) error) error {
	const ttl = 5 * time.Second
	owner := rand.Text()
	for {
		taken, err := rdb.SetNX(ctx, "stock:42", owner, ttl).Result()
		if err != nil {
			return err
		}
		if taken {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(ttl / 3):
			case <-ctx.Done():
				return
			}
			renewed, err := renewScript.Run(ctx, rdb, []string{"stock:42"}, owner, ttl.Milliseconds()).Int()
			if err != nil || renewed == 0 {
				cancel(errors.New("the lock may be lost"))
				return
			}
		}
	}()
	err := sell(ctx)
	cancel(nil)
	<-ended
	release, stop := context.WithTimeout(context.Background(), ttl)
	defer stop()
	return errors.Join(err, releaseScript.Run(release, rdb, []string{"stock:42"}, owner).Err())
}

func sellWithHoldfast(ctx context.Context, rdb *redis.Client, sell func(context.Context) error) error {
	locker := goredisconn.Locker(rdb, &holdfast.Options{TTL: 5 * time.Second})
	return locker.Mutex("stock:42").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error {
		return sell(ctx)
	})
}

func TestByHandIsThatOfThePage(t *testing.T) {
	pages.Within(t, "docs/comparison.md", "go", "internal/e2e/jobtest/byhand_test.go")
}

// Both functions sell to one caller at a time, and leave the lock free.
func TestByHand(t *testing.T) {
	for name, locked := range map[string]func(context.Context, *redis.Client, func(context.Context) error) error{
		"by hand": sellByHand, "with Holdfast": sellWithHoldfast,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
			t.Cleanup(func() { _ = rdb.Close() })
			ctx := await.Context(t, time.Minute)
			var inside atomic.Int64
			ended := make(chan error)
			for range 4 {
				go func() {
					ended <- locked(ctx, rdb, func(context.Context) error {
						inside.Add(1)
						defer inside.Add(-1)
						if await.Eventually(50*time.Millisecond, func() bool { return inside.Load() > 1 }) {
							t.Error("two sell at once")
						}
						return nil
					})
				}()
			}
			for range 4 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if n := rdb.Exists(ctx, "stock:42").Val(); n != 0 {
				t.Error("the lock stays")
			}
		})
	}
}
