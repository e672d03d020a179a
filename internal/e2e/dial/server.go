package dial

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Server connects to a single server as most programs do: with the library's own
// settings, timeouts included. The function that it returns closes the connection and
// must be called.
func Server(adapter, addr, user, password string) (redishold.Conn, func(), error) {
	switch adapter {
	case rueidisAdapter:
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := rueidisconn.Open(ctx, "redis://"+addr, &rueidisconn.Options{Username: user, Password: password})
		if err != nil {
			return nil, nil, err
		}
		return conn, conn.Close, nil
	case goRedisAdapter:
		client := redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: password})
		return goredisconn.New(client), func() { _ = client.Close() }, nil
	default:
		return nil, nil, fmt.Errorf("unknown adapter %q", adapter)
	}
}
