package conntest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// TestExhaustedPool has the program use all connections of a pool of go-redis until a lock
// is lost. The errors name the pool.
func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr(), PoolSize: 2, ContextTimeoutEnabled: true})
	defer client.Close()
	l := holdfast.New(redishold.New(goredisconn.New(client), nil), &holdfast.Options{TTL: time.Second})
	defer must.Drain(t, l)
	held := must.Lock(t, l, "held")
	defer func() { _ = held.Unlock() }() // when the pool has connections again
	for range 2 {
		conn := client.Conn()
		defer conn.Close()
		if err := conn.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.TryLock(await.Context(t, 600*time.Millisecond), "other")
	await.Until(t, 5*time.Second, "the lock is lost", func() bool { return held.Err() != nil })
	const says = "no connection free in the pool of 2 (2 in use)"
	for what, err := range map[string]error{"TryLock": err, "a lost lock": held.Err()} {
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want DeadlineExceeded and that it says %q", what, err, says)
		}
	}
}
