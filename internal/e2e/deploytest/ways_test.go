package deploytest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// place is where a deployment is found.
type place struct {
	topology           redistest.Topology
	url                string
	addrs              []string // of the servers, or of the sentinels
	socket             string
	username, password string
	tls                *tls.Config
}

// way is how a program gets its Conn.
type way func(ctx context.Context, p place) (redishold.Conn, func(), error)

// ways are those that Holdfast promises.
func ways() map[string]way {
	return map[string]way{"url": byURL, "rueidis client": byRueidis, "go-redis client": byGoRedis}
}

func byURL(ctx context.Context, p place) (redishold.Conn, func(), error) {
	conn, err := rueidisconn.Open(ctx, p.url, &rueidisconn.Options{Username: p.username, Password: p.password, TLS: p.tls})
	if err != nil {
		return nil, nil, err
	}
	return conn, conn.Close, nil
}

// byRueidis uses a client of the program's own, as docs/deployments.md says.
func byRueidis(_ context.Context, p place) (redishold.Conn, func(), error) {
	option := rueidis.ClientOption{
		InitAddress: p.addrs, Username: p.username, Password: p.password, TLSConfig: p.tls,
		DisableCache: true, AlwaysPipelining: true, ConnWriteTimeout: 1500 * time.Millisecond,
		Dialer: net.Dialer{Timeout: 2 * time.Second, KeepAlive: 500 * time.Millisecond},
	}
	option.ClusterOption.ShardsRefreshInterval = time.Second
	if p.topology == redistest.Sentinel {
		option.Dialer.Timeout = time.Second
		option.Sentinel.MasterSet = redistest.MasterName
		option.Sentinel.TopologyRefreshInterval = 2 * time.Second
		option.Sentinel.Dialer = net.Dialer{Timeout: time.Second, KeepAlive: 500 * time.Millisecond}
	}
	if p.socket != "" {
		option.InitAddress = []string{p.socket}
		option.DialCtxFn = func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", p.socket)
		}
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	conn := rueidisconn.New(client)
	return conn, func() { conn.Close(); client.Close() }, nil
}

// byGoRedis uses a client of the program's own, as docs/deployments.md says.
func byGoRedis(_ context.Context, p place) (redishold.Conn, func(), error) {
	options := universal(p)
	options.ContextTimeoutEnabled, options.ReadTimeout = true, 2*time.Second
	if p.topology == redistest.Sentinel {
		options.MaxRetries, options.ReadTimeout, options.DialTimeout = -1, time.Second, 3*time.Second
	}
	client := redis.NewUniversalClient(options)
	return goredisconn.New(client), func() { _ = client.Close() }, nil
}

// byGoRedisWithDefaults uses the client that most programs have.
func byGoRedisWithDefaults(_ context.Context, p place) (redishold.Conn, func(), error) {
	client := redis.NewUniversalClient(universal(p))
	return goredisconn.New(client), func() { _ = client.Close() }, nil
}

// universal returns where a go-redis client connects.
func universal(p place) *redis.UniversalOptions {
	options := &redis.UniversalOptions{
		Addrs: p.addrs, Username: p.username, Password: p.password, TLSConfig: p.tls,
		IsClusterMode: p.topology == redistest.Cluster,
	}
	if p.topology == redistest.Sentinel {
		options.MasterName = redistest.MasterName
	}
	if p.socket != "" {
		options.Addrs = []string{p.socket}
	}
	return options
}

// open returns a Locker of a client of its own, which ends with t.
func open(t testing.TB, w way, p place, o redishold.Options) *holdfast.Locker {
	t.Helper()
	return drained(t, openStore(t, w, p, o))
}

// openStore returns a store over a client of its own, which ends with t.
func openStore(t testing.TB, w way, p place, o redishold.Options) *redishold.Backend {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, shut, err := w(ctx, p)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(shut)
	return redishold.New(conn, &o)
}

// ttl is that of every lock.
const ttl = 5 * time.Second

// drained returns a Locker that ends its clean-up with t, as a program should.
func drained(t testing.TB, store interface {
	driver.Backend
	admin.Source
},
) *holdfast.Locker {
	log := audit.New(store, nil)
	l := holdfast.New(store, &holdfast.Options{TTL: ttl, Observe: log.Observe})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
		defer cancel()
		if err := errors.Join(l.Drain(ctx), log.Flush(ctx)); err != nil {
			t.Errorf("Drain: %v", err)
		}
	})
	return l
}
