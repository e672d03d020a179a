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
	pingEvery   = time.Second
	pingTimeout = time.Second // limit of one PING if the client honours contexts; otherwise the ReadTimeout of the client is the limit
	maxPings    = 200         // maximal number of connections that get a PING at a time

	pingPipelines = 4
)

// pooled has those methods of *redis.Client that this package needs and the interface Client
// does not have.
type pooled interface {
	Options() *redis.Options
	PoolStats() *redis.PoolStats
}

// idle pings the idle connections of a client for a single server. These connections stay open
// if the machine of the server is lost, and the host name then leads to another machine.
// Without the pings, calls would use these connections one after the other, and each of these
// calls would fail, before go-redis makes a new connection.
type idle struct {
	client Client
	pool   pooled // nil if the idle connections of the client get no PING

	lastPing atomic.Int64 // when the connections got a PING last, in Unix nanoseconds
	pinging  atomic.Int32 // number of PINGs without a reply
}

func newIdle(client Client) *idle {
	i := &idle{client: client}
	if p, ok := client.(pooled); ok && p.Options().Addr != failoverAddr { // with Sentinels, go-redis closes idle connections when it finds a new master
		i.pool = p
	}
	return i
}

// observe pings the idle connections if a call got no reply in time. If all connections of the
// pool are in use, observe adds that fact to the error instead.
func (i *idle) observe(results []redishold.Result) {
	if i.pool == nil || !slices.ContainsFunc(results, func(r redishold.Result) bool { return r.Err != nil && timedOut(r.Err) }) {
		return
	}
	size, s := i.pool.Options().PoolSize, i.pool.PoolStats()
	if used := int(s.TotalConns) - int(s.IdleConns); used >= size {
		for n, r := range results {
			if r.Err != nil && timedOut(r.Err) {
				results[n].Err = fmt.Errorf("no connection free in the pool of %d (%d in use): %w", size, used, r.Err)
			}
		}
		return
	}
	now, last := time.Now().UnixNano(), i.lastPing.Load()
	if now-last >= int64(pingEvery) && i.lastPing.CompareAndSwap(last, now) {
		i.pingAll()
	}
}

// timedOut reports whether err means that there was no reply in time.
func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return !errors.As(err, new(*redishold.ReplyError)) &&
		(errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout())
}

// pingAll sends a PING over each idle connection, over all at the same time, so that each
// connection gets one. go-redis closes the connections without a reply. Newer versions of
// go-redis have a separate pool for pipelines. Few connections of that pool are in use at a
// time, so pingAll sends only pingPipelines pipelines over them.
func (i *idle) pingAll() {
	n := min(int(i.pool.PoolStats().IdleConns), maxPings)
	if !i.pinging.CompareAndSwap(0, int32(n)+pingPipelines) {
		return
	}
	for range n {
		go i.ping(func(ctx context.Context, ping redis.Cmder) { _ = i.client.Process(ctx, ping) })
	}
	for range pingPipelines {
		go i.ping(func(ctx context.Context, ping redis.Cmder) {
			pipe := i.client.Pipeline()
			_ = pipe.Process(ctx, ping)
			_ = pipe.Process(ctx, noRetry{redis.NewCmd(ctx, "ping")})
			_, _ = pipe.Exec(ctx)
		})
	}
}

func (i *idle) ping(send func(context.Context, redis.Cmder)) {
	defer i.pinging.Add(-1)
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	send(ctx, noRetry{redis.NewCmd(ctx, "ping")})
}
