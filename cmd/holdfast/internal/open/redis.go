package open

import (
	"cmp"
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
)

// redisTarget returns the Target of a Redis. rueidisconn checks its URL when the Target is
// opened.
func redisTarget(r Request) (*Target, error) {
	options := cmp.Or(r.Redis, &redishold.Options{})
	shape := func() driver.Backend { return redishold.New(nil, options) }
	return &Target{Kind: Redis, shape: shape, open: func(ctx context.Context) (*Store, error) {
		conn, err := r.Access.Open(ctx)
		if err != nil {
			return nil, err
		}
		return &Store{
			Kind: Redis, Backend: redishold.New(conn, options), Redis: conn, where: redisurl.Redacted(r.Access.URL), trouble: redisTrouble(conn), close: conn.Close,
			ping: func(ctx context.Context) (string, error) {
				info, err := conn.Server(ctx)
				return info.Version, err
			},
		}, nil
	}}, nil
}
