package storestest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// Waiters cost a store a bounded number of connections and requests, however many they
// are. pgtest and mysqltest have the same for databases.
func TestBounds(t *testing.T) { // not beside other tests: it measures
	loads := map[string]func(*testing.T) *manytest.Load{
		anystore.Etcd:      etcdLoad,
		anystore.ZooKeeper: zooKeeperLoad,
	}
	adapters := []string{goRedis}
	if manytest.Full() {
		adapters = dial.Adapters()
	}
	for _, adapter := range adapters {
		loads[adapter] = func(t *testing.T) *manytest.Load { return redisLoad(t, adapter) }
	}
	for name, load := range loads {
		t.Run(name, func(t *testing.T) {
			if !manytest.Full() { // the figures are of one store
				t.Parallel()
			}
			load(t).Run(t)
		})
	}
}

// goRedis is one of dial.Adapters.
const goRedis = "goredis"

// openLoad opens a Backend over what at says: a store or an adapter of Redis, and an
// address.
func openLoad(at string) (driver.Backend, func(), error) {
	const ttl = 6 * time.Second
	store, addr, _ := strings.Cut(at, " ")
	switch store {
	case anystore.Etcd, anystore.ZooKeeper:
		return anystore.Dial(store, addr, ttl)
	case goRedis:
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 10_000}) // by default it has ten for each processor
		return redishold.New(goredisconn.New(client), nil), func() { _ = client.Close() }, nil
	default:
		conn, shut, err := dial.Server(store, addr, "", "")
		if err != nil {
			return nil, nil, err
		}
		return redishold.New(conn, nil), shut, nil
	}
}

func redisLoad(t *testing.T, adapter string) *manytest.Load {
	server := redistest.Start(t)
	return &manytest.Load{
		Open: openLoad, At: adapter + " " + server.Addr(),
		Server: func() (commands, _ int) {
			commands, _, _ = server.Cost()
			return commands, 0
		},
		Clients: func() (connections, busy int) {
			_, connections, busy = server.Cost()
			return connections, busy
		},
		Stranger: func(ctx context.Context) error {
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			defer client.Close()
			return client.Ping(ctx).Err()
		},
		Most: func(c manytest.Crowd) manytest.Bounds {
			b := manytest.Bounds{Requests: 200 + 16*c.Waiters, Connections: 20}
			if adapter == goRedis { // a connection for each call
				b.Connections += c.Waiters + c.GaveUp
			}
			return b
		},
	}
}

func etcdLoad(t *testing.T) *manytest.Load {
	server := etcdtest.Start(t)
	cost := func() etcdtest.Cost {
		c, err := server.Cost()
		if err != nil {
			t.Error(err)
		}
		return c
	}
	return &manytest.Load{
		Open: openLoad, At: anystore.Etcd + " " + strings.TrimPrefix(server.Addr(), "http://"),
		Server: func() (requests, _ int) {
			return cost().Requests, 0
		},
		Clients: func() (connections, busy int) {
			c := cost()
			return c.Connections, c.Busy
		},
		Stranger: func(ctx context.Context) error {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Logger: zap.NewNop()})
			if err != nil {
				return err
			}
			defer client.Close()
			_, err = client.Get(ctx, "any")
			return err
		},
		Most: func(c manytest.Crowd) manytest.Bounds { // renewals without an answer make connections
			return manytest.Bounds{Requests: 100 + 2*c.Waiters, Connections: 40}
		},
	}
}

func zooKeeperLoad(t *testing.T) *manytest.Load {
	server := zktest.Start(t)
	return &manytest.Load{
		Open: openLoad, At: anystore.ZooKeeper + " " + server.Addr(),
		Server: func() (packets, _ int) {
			packets, _, _ = server.Cost()
			return packets, 0
		},
		Clients: func() (connections, busy int) {
			_, connections, busy = server.Cost()
			return connections, busy
		},
		Stranger: func(context.Context) error {
			conn, err := server.Dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			_, _, err = conn.Get("/")
			return err
		},
		Most: func(c manytest.Crowd) manytest.Bounds {
			return manytest.Bounds{Requests: 150 + c.Waiters/2, Connections: 10}
		},
	}
}
