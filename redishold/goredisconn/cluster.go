package goredisconn

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/redishold"
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

// Homes implements adapter.Masters. If go-redis does not know the slots yet, it reads them
// first.
func (c *nodes) Homes(ctx context.Context, calls []redishold.Call) []string {
	homes := make([]string, len(calls))
	for i := range calls {
		if node, err := c.client.MasterForKey(ctx, key(&calls[i])); err == nil {
			homes[i] = node.Options().Addr
		}
	}
	return homes
}

// key returns the key by which a call is routed, or "" for a call without keys, which may go to
// any node.
func key(call *redishold.Call) string {
	if len(call.Keys) == 0 {
		return ""
	}
	return call.Keys[0]
}

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
