package goredisconn

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// go-redis' own PubSub of a cluster stays at the node of its first channel, or at
// one that it draws at random. Those of its clients for the single nodes serve
// all of their node.

// Route returns the master of key's slot as a node to link to. go-redis answers from
// memory once it has seen the cluster.
func (c *nodes) Route(ctx context.Context, key string) (adapter.Node, error) {
	master, err := adapter.Try(ctx, func() (*redis.Client, error) { return c.client.MasterForKey(ctx, key) })
	if err != nil {
		return adapter.Node{}, adapter.Classify(ctx, err, true)
	}
	return adapter.Node{Addr: master.Options().Addr, Key: key, Dial: dial(master.Subscribe)}, nil
}

// Review has go-redis look at the cluster once.
func (c *nodes) Review(string) { c.Once() }

// Any returns a master that a key leads to. As long as it does, the node is part of
// the cluster.
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
