package storestest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// Waiters cost Redis a bounded number of connections and requests, however many they are.
func TestBounds(t *testing.T) { // not beside other tests: it measures
	adapters := []string{goRedis}
	if manytest.Full() {
		adapters = dial.Adapters()
	}
	for _, adapter := range adapters {
		t.Run(adapter, func(t *testing.T) { redisLoad(t, adapter).Run(t) })
	}
}

// The same in each other store. In databases a hundred have a place in the queue.
func TestBoundsOfStores(t *testing.T) { // not beside other tests: it measures
	for _, k := range anystore.All() {
		t.Run(k.Name, func(t *testing.T) {
			if !manytest.Full() { // the figures are of one store
				t.Parallel()
			}
			storeLoad(t, k.Start(t)).Run(t)
		})
	}
}

// A thousand locks are renewed by few requests.
func TestRenewalsOfStores(t *testing.T) {
	t.Parallel()
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		const lease = 6 * time.Second
		server := k.Start(t) // some count what all their clients ask
		clients := server.Counted(server)
		l := lockerOf(t, clients.Open, server.Addr, k.Session(lease))
		manytest.Renewals(t, l, lease/3, clients.Each, clients.Requests)
	})
}

// goRedis is one of dial.Adapters.
const goRedis = "goredis"

// openLoad opens a Backend over what at says: a store or an adapter of Redis, and an
// address.
func openLoad(at string) (driver.Backend, func(), error) {
	const ttl = 6 * time.Second
	if k, addr, err := kindAt(at); err == nil {
		return k.Crowd(addr, ttl)
	}
	adapter, addr, _ := strings.Cut(at, " ")
	if adapter == goRedis {
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 10_000}) // by default it has ten for each processor
		return redishold.New(goredisconn.New(client), nil), func() { _ = client.Close() }, nil
	}
	conn, shut, err := dial.Server(adapter, addr, "", "")
	if err != nil {
		return nil, nil, err
	}
	return redishold.New(conn, nil), shut, nil
}

func storeLoad(t *testing.T, server *anystore.Store) *manytest.Load {
	cost := func() anystore.Cost {
		c, err := server.Cost()
		if err != nil {
			t.Error(err)
		}
		return c
	}
	return &manytest.Load{
		Open: openLoad, At: server.Name + " " + server.Addr,
		Server: func() (requests, numbers int) {
			c := cost()
			return c.Requests, c.Numbers
		},
		Clients: func() (connections, busy int) {
			c := cost()
			return c.Connections, c.Busy
		},
		Stranger: func(ctx context.Context) error { return server.Ask(ctx, server.Addr) },
		Most:     server.Bounds,
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
