package goredisconn

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// The PubSub of a cluster client of go-redis stays at the node of its first channel, or at a
// random node. So this package uses the clients of go-redis for the single nodes: their
// PubSub serves all channels of the node.

// Route returns the master of the slot of a channel. If go-redis does not know the slots yet, it
// reads them first.
func (c *nodes) Route(ctx context.Context, channel string) (adapter.Node, error) {
	master, err := adapter.Try(ctx, func() (*redis.Client, error) { return c.client.MasterForKey(ctx, channel) })
	if err != nil {
		return adapter.Node{}, adapter.Classify(ctx, err, true)
	}
	return adapter.Node{Addr: master.Options().Addr, Dial: dial(master.Subscribe)}, nil
}

// Review starts one poll, in which go-redis finds out the masters again.
func (c *nodes) Review() { c.Once() }
