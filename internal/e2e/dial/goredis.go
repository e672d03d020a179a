package dial

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// goRedis makes the client that most programs have: with the library's defaults,
// its retries and timeouts.
func (t Target) goRedis() (redishold.Conn, func(), error) {
	client := t.goRedisClient()
	return goredisconn.New(client), func() { _ = client.Close() }, nil
}

func (t Target) goRedisClient() redis.UniversalClient {
	switch t.Topology {
	case redistest.Sentinel:
		o := &redis.FailoverOptions{
			MasterName: redistest.MasterName, SentinelAddrs: t.Seeds, SentinelPassword: t.SentinelPassword,
			Username: t.Username, Password: t.Password, Dialer: t.dialTLS, DialTimeout: timeout,
		}
		if t.Documented {
			o.MaxRetries, o.ReadTimeout, o.DialTimeout, o.ContextTimeoutEnabled = -1, time.Second, 3*time.Second, true
		}
		return redis.NewFailoverClient(o)
	case redistest.Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: t.Seeds, Username: t.Username, Password: t.Password, Dialer: t.dialTLS, DialTimeout: timeout,
		})
	}
	o := &redis.Options{Username: t.Username, Password: t.Password, Dialer: t.dialTLS, DialTimeout: timeout}
	if t.Socket != "" {
		o.Network, o.Addr = "unix", t.Socket
	} else {
		o.Addr = t.Seeds[0]
	}
	return redis.NewClient(o)
}
