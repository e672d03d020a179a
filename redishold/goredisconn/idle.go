package goredisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
)

const (
	wakeEvery = time.Second
	wakeLimit = time.Second // where the client honours contexts; else its ReadTimeout
	wakeMost  = 200         // connections at a time

	wakePipelines = 4
)

// pooled is what *redis.Client has beyond Client.
type pooled interface {
	Options() *redis.Options
	PoolStats() *redis.PoolStats
}

// idle looks after the idle connections of a client for a single server. Where the
// machine of the server is lost and its name leads to another, nobody ends them, and
// each would take one call, one after the other, before go-redis makes a new one.
type idle struct {
	client Client
	pool   pooled // nil if the client has no pool of its own

	last   atomic.Int64 // when they were tried, in Unix nanoseconds
	trying atomic.Int32
}

func newIdle(client Client) *idle {
	i := &idle{client: client}
	if p, ok := client.(pooled); ok && p.Options().Addr != failoverAddr { // that one drops them when it finds a new master
		i.pool = p
	}
	return i
}

// Noted tries the idle connections if a call was not answered in time, or says in its error
// that the pool has none.
func (i *idle) Noted(results []redishold.Result) {
	if i.pool == nil || !slices.ContainsFunc(results, func(r redishold.Result) bool { return r.Err != nil && silent(r.Err) }) {
		return
	}
	size, s := i.pool.Options().PoolSize, i.pool.PoolStats()
	if used := int(s.TotalConns) - int(s.IdleConns); used >= size {
		for n, r := range results {
			if r.Err != nil && silent(r.Err) {
				results[n].Err = fmt.Errorf("no connection free in the pool of %d (%d in use): %w", size, used, r.Err)
			}
		}
		return
	}
	now, last := time.Now().UnixNano(), i.last.Load()
	if now-last >= int64(wakeEvery) && i.last.CompareAndSwap(last, now) {
		i.try()
	}
}

// silent reports whether err leaves open what became of a call, for want of time.
func silent(err error) bool {
	var timeout interface{ Timeout() bool }
	return !errors.As(err, new(*redishold.ReplyError)) &&
		(errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout())
}

// try sends a PING over each idle connection, all at the same time, so that none of
// them is left for a call. Those that do not answer are closed by go-redis. Newer
// versions of it have a pool of its own for pipelines, of which few are under way at
// a time.
func (i *idle) try() {
	n := min(int(i.pool.PoolStats().IdleConns), wakeMost)
	if !i.trying.CompareAndSwap(0, int32(n)+wakePipelines) {
		return
	}
	for range n {
		go i.ping(func(ctx context.Context, ping redis.Cmder) { _ = i.client.Process(ctx, ping) })
	}
	for range wakePipelines {
		go i.ping(func(ctx context.Context, ping redis.Cmder) {
			pipe := i.client.Pipeline()
			_ = pipe.Process(ctx, ping)
			_ = pipe.Process(ctx, once{redis.NewCmd(ctx, "ping")})
			_, _ = pipe.Exec(ctx)
		})
	}
}

func (i *idle) ping(send func(context.Context, redis.Cmder)) {
	defer i.trying.Add(-1)
	ctx, cancel := context.WithTimeout(context.Background(), wakeLimit)
	defer cancel()
	send(ctx, once{redis.NewCmd(ctx, "ping")})
}
