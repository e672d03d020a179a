package deploytest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// name is what leads to one server, and later to another.
type name struct{ addr atomic.Pointer[string] }

func (n *name) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, *n.addr.Load())
}

// clientsOf returns how clients of one server connect by that name.
func clientsOf(n *name) map[string]func() (redishold.Conn, func(), error) {
	return map[string]func() (redishold.Conn, func(), error){
		"url": func() (redishold.Conn, func(), error) {
			conn, err := rueidisconn.Open(context.Background(), "redis://redis.example", &rueidisconn.Options{Dial: n.dial})
			if err != nil {
				return nil, nil, err
			}
			return conn, conn.Close, nil
		},
		"rueidis client": func() (redishold.Conn, func(), error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{"redis.example:6379"}, DisableCache: true, AlwaysPipelining: true, ConnWriteTimeout: 1500 * time.Millisecond,
				Dialer: net.Dialer{Timeout: 2 * time.Second, KeepAlive: 500 * time.Millisecond},
				DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return n.dial(ctx, "tcp", addr)
				},
			})
			if err != nil {
				return nil, nil, err
			}
			conn := rueidisconn.New(client)
			return conn, func() { conn.Close(); client.Close() }, nil
		},
		"go-redis client": func() (redishold.Conn, func(), error) {
			client := redis.NewClient(&redis.Options{Addr: "redis.example:6379", Dialer: n.dial, ReadTimeout: 2 * time.Second, ContextTimeoutEnabled: true})
			return goredisconn.New(client), func() { _ = client.Close() }, nil
		},
		"go-redis client with its defaults": func() (redishold.Conn, func(), error) {
			client := redis.NewClient(&redis.Options{Addr: "redis.example:6379", Dialer: n.dial})
			return goredisconn.New(client), func() { _ = client.Close() }, nil
		},
	}
}

// Where one name leads to the current master, locks work again soon after the
// machine of the master was lost and the name leads to another: the old
// connections, of which there are many, are not ended by anybody.
func TestLostMachineBehindAName(t *testing.T) {
	n := &name{}
	for client, connect := range clientsOf(n) {
		t.Run(client, func(t *testing.T) {
			first, second := redistest.Start(t), redistest.Start(t)
			addr := first.Addr()
			n.addr.Store(&addr)
			conn, shut, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(shut)
			l := drained(t, redishold.New(conn, nil))
			var all sync.WaitGroup
			for i := range 40 {
				all.Go(func() {
					for j := range 20 {
						if k, err := l.Lock(await.Context(t, 10*time.Second), fmt.Sprintf("before:%d:%d", i, j)); err != nil {
							t.Errorf("before: %v", err)
						} else {
							_ = k.Unlock()
						}
					}
				})
			}
			all.Wait()
			first.Silence()
			addr = second.Addr()
			n.addr.Store(&addr)
			lost := await.NewWatch(t)
			limit := graceAfterFreeze
			if strings.Contains(client, "defaults") {
				limit += 2 * time.Second // all connections of its pool may be in use for its ReadTimeout of 5 s
			}
			k, err := l.Lock(await.Context(t, 40*time.Second), "after")
			if took := lost.Took(); err != nil || took > limit {
				t.Errorf("a lock after %v, %v, want one within %v", took, err, limit)
			} else {
				t.Logf("a lock after %v", took)
			}
			if err == nil {
				_ = k.Unlock()
			}
		})
	}
}
