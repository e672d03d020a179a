package javaconf

import (
	"context"
	"errors"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/importconf"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// way makes a Conn of settings, as docs/configuration.md says.
type way func(ctx context.Context, s *importconf.Settings) (redishold.Conn, func(), error)

func ways() map[string]way { return map[string]way{"rueidis": byRueidis, "goredis": byGoRedis} }

// openURL connects with rueidisconn to one URL of the settings.
func openURL(ctx context.Context, s *importconf.Settings, url string) (*rueidisconn.Conn, error) {
	config, err := s.TLSConfig(os.ReadFile)
	if err != nil {
		return nil, err
	}
	return rueidisconn.Open(ctx, url, &rueidisconn.Options{
		Username: s.Username, Password: s.Password,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword,
		TLS: config, ClientName: s.ClientName, DialTimeout: s.DialTimeout,
	})
}

func byRueidis(ctx context.Context, s *importconf.Settings) (redishold.Conn, func(), error) {
	url, err := masterOf(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	conn, err := openURL(ctx, s, url)
	if err != nil {
		return nil, nil, err
	}
	return conn, conn.Close, nil
}

// masterOf returns the URL, or asks the nodes which of them is the master.
func masterOf(ctx context.Context, s *importconf.Settings) (string, error) {
	if s.Deployment != importconf.Replicated {
		return s.URL, nil
	}
	failure := errors.New("no node is a master")
	for _, node := range s.Nodes {
		conn, err := openURL(ctx, s, node)
		if err != nil {
			failure = err
			continue
		}
		info, err := conn.Server(ctx)
		conn.Close()
		if err == nil && info.Role == "master" {
			return node, nil
		}
	}
	return "", failure
}

func byGoRedis(ctx context.Context, s *importconf.Settings) (redishold.Conn, func(), error) {
	config, err := s.TLSConfig(os.ReadFile)
	if err != nil {
		return nil, nil, err
	}
	addrs := s.Addrs
	if s.Deployment == importconf.Replicated {
		master, err := masterOf(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		options, err := redis.ParseURL(master)
		if err != nil {
			return nil, nil, err
		}
		addrs = []string{options.Addr}
	}
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: addrs, DB: s.Database, MasterName: s.MasterName, IsClusterMode: s.Deployment == importconf.Cluster,
		Username: s.Username, Password: s.Password,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword,
		TLSConfig: config, ClientName: s.ClientName, MaxRedirects: s.MaxRedirects,
		DialTimeout: s.DialTimeout, ReadTimeout: s.Timeout, WriteTimeout: s.Timeout, ContextTimeoutEnabled: true,
		PoolSize: s.Pool.Size, MaxActiveConns: s.Pool.Size, MinIdleConns: s.Pool.MinIdle, MaxIdleConns: s.Pool.MaxIdle,
		PoolTimeout: s.Pool.Wait,
	})
	return goredisconn.New(client), func() { _ = client.Close() }, nil
}

// newLocker makes a Locker as the settings say.
func newLocker(conn redishold.Conn, s *importconf.Settings) *holdfast.Locker {
	return holdfast.New(redishold.New(conn, &redishold.Options{FairWait: s.FairWait}), &holdfast.Options{TTL: s.TTL})
}
