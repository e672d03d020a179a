package open

import (
	"cmp"
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
)

// redis has the settings of a Redis. rueidisconn checks its URL when it is opened.
type redis struct {
	access  access.Access
	options *redishold.Options
}

func parseRedis(r Request) (*redis, error) {
	return &redis{r.Access, cmp.Or(r.Redis, &redishold.Options{})}, nil
}

func (r *redis) backend() driver.Backend { return redishold.New(nil, r.options) }

func (r *redis) open(ctx context.Context) (*Store, error) {
	conn, err := r.access.Open(ctx)
	if err != nil {
		return nil, err
	}
	ask := func(ctx context.Context) (state, error) {
		info, err := conn.Server(ctx)
		now := state{version: info.Version}
		if !info.Cluster && (info.Role == "slave" || info.Role == "replica") { // it takes no writes
			now.trouble = fmt.Errorf("%w: it is a replica, and its master is meant", ErrReadOnly)
		}
		return now, err
	}
	return &Store{Kind: Redis, Backend: redishold.New(conn, r.options), Redis: conn, Layout: r.options.Layout.String(), where: redisurl.Redacted(r.access.URL), state: ask, close: conn.Close}, nil
}
