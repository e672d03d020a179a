package open

import (
	"cmp"
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// redis has the settings of a Redis. Its URL is not checked before open calls rueidisconn.
type redis struct {
	access  Access
	options *redishold.Options
}

func parseRedis(r Request) (*redis, error) {
	return &redis{r.Access, cmp.Or(r.Redis, &redishold.Options{})}, nil
}

func (r *redis) backend() driver.Backend { return redishold.New(nil, r.options) }

func (r *redis) open(ctx context.Context) (*Store, error) {
	conn, err := r.access.Connect(ctx)
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
	return &Store{Kind: Redis, Backend: redishold.New(conn, r.options), Redis: conn, Layout: r.options.Layout.String(), redis: r, hosts: r.access.Place(), state: ask, close: conn.Close}, nil
}

// examine is Store.Examine for a Redis.
func (r *redis) examine(ctx context.Context, conn *rueidisconn.Conn, how doctor.Options) (*doctor.Report, error) {
	how.Redis = *r.options
	how.Redis.Logger = nil
	if r.access.URL == "" { // several servers, one of which is the master
		return doctor.Examine(ctx, conn, &how)
	}
	tls, err := r.access.TLS()
	if err != nil {
		return nil, err
	}
	sentinels, err := rueidisconn.NewSentinels(r.access.URL, &rueidisconn.Options{TLS: tls, DialTimeout: r.access.DialTimeout})
	if err != nil {
		return nil, err
	}
	if sentinels != nil {
		how.Sentinels, how.Master = sentinels, sentinels.Master()
	}
	return doctor.Examine(ctx, conn, &how)
}
