package goredisconn

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// cluster has those methods of *redis.ClusterClient that this package needs and the interface
// Client does not have.
type cluster interface {
	Options() *redis.ClusterOptions
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ForEachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error
}

// nodes is the adapter.Cluster over a cluster client of go-redis.
type nodes struct {
	*adapter.Poller
	client cluster

	unanswered atomic.Int32 // number of nodes that were asked and have not replied yet, in all polls together
	masters    []string     // the addresses of the masters at the latest poll, sorted
}

func newNodes(client cluster) *nodes {
	c := &nodes{client: client}
	c.Poller = adapter.NewPoller(pollEvery, pollFor, c.refresh)
	return c
}

// Home implements adapter.Masters. If go-redis does not know the slots yet, it reads them first.
func (c *nodes) Home(ctx context.Context, key string) string {
	node, err := c.client.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// Route returns the master of the slot of a channel. If go-redis does not know the slots yet, it
// reads them first. The link is a PubSub of the client for that node. The PubSub of a cluster
// client would stay at the node of its first channel, or at a random node.
func (c *nodes) Route(ctx context.Context, channel string) (adapter.Node, error) {
	master, err := adapter.Try(ctx, func() (*redis.Client, error) { return c.client.MasterForKey(ctx, channel) })
	if err != nil {
		return adapter.Node{}, adapter.Classify(ctx, err, true)
	}
	return adapter.Node{Addr: master.Options().Addr, Dial: dial(master.Subscribe)}, nil
}

// Review starts one poll, in which go-redis finds out the masters again.
func (c *nodes) Review() { c.Once() }

// newNodeClient returns a new client for the node at addr, with the settings of `sibling`, the
// client of another node. A new client is needed because go-redis may not know the node at addr
// yet, and has no method that returns the client for an address.
func (c *nodes) newNodeClient(sibling *redis.Client, addr string) *redis.Client {
	o := *sibling.Options()
	o.Addr, o.NodeAddress = addr, ""
	o.PoolSize, o.MinIdleConns = 1, 0
	// Without this line, NewClient would register the handlers of maintenance notifications a
	// second time with the processor of the sibling, and panic.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return c.client.Options().NewClient(&o)
}
