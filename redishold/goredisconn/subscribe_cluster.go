package goredisconn

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// The PubSub of a cluster client of go-redis stays at the node of its first channel, or at a
// random node. So this package uses the clients of go-redis for the single nodes: their
// PubSub serves all channels of the node.

// Route returns the master of the slot to which `key` belongs. If go-redis does not know the
// slots yet, it reads them first.
func (c *nodes) Route(ctx context.Context, key string) (adapter.Node, error) {
	master, err := adapter.Try(ctx, func() (*redis.Client, error) { return c.client.MasterForKey(ctx, key) })
	if err != nil {
		return adapter.Node{}, adapter.Classify(ctx, err, true)
	}
	return adapter.Node{Addr: master.Options().Addr, Key: key, Dial: dial(master.Subscribe)}, nil
}

// Review starts one poll, in which go-redis finds out the masters again.
func (c *nodes) Review(string) { c.Once() }

// Any implements adapter.Topology. It chooses a master by a random key, which the Node keeps:
// as long as that key leads to the node, the node is a master of the cluster.
func (c *nodes) Any(ctx context.Context, stay adapter.Node, failed string) (node adapter.Node, err error) {
	if stay.Key != "" {
		node, err = c.Route(ctx, stay.Key)
		if err != nil || node.Addr == stay.Addr {
			return node, err
		}
	}
	for range 20 {
		node, err = c.Route(ctx, strconv.Itoa(rand.N(1<<20))) //nolint:gosec // spreads load, protects nothing
		if err != nil || node.Addr != failed {
			break
		}
	}
	return node, err
}
