// Package store opens the stores that both versions are compared on.
package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Open returns the store at a URL, and how to close it. goredis:// is redis:// by way of
// go-redis. ttl is that of etcd's session.
func Open(url string, ttl time.Duration) (b driver.Backend, shut func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	scheme, addr, _ := strings.Cut(url, "://")
	switch scheme {
	case "redis":
		conn, err := rueidisconn.Open(ctx, url, nil)
		if err != nil {
			return nil, nil, err
		}
		return redishold.New(conn, nil), conn.Close, nil
	case "goredis":
		client := redis.NewClient(&redis.Options{Addr: addr})
		return redishold.New(goredisconn.New(client), nil), func() { _ = client.Close() }, nil
	case "http":
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
		if err != nil {
			return nil, nil, err
		}
		return etcdhold.New(client, &etcdhold.Options{TTL: ttl}), func() { _ = client.Close() }, nil
	case "postgres":
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return nil, nil, err
		}
		b := pghold.New(pool, &pghold.Options{Listen: pool.Config().ConnConfig})
		return b, pool.Close, b.CreateTable(ctx)
	}
	return nil, nil, fmt.Errorf("no store %q", url)
}
