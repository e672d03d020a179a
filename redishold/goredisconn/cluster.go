package goredisconn

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// cluster is what *redis.ClusterClient has beyond Client.
type cluster interface {
	Options() *redis.ClusterOptions
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ForEachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error
}

// nodes is go-redis' cluster client as package adapter uses it.
type nodes struct {
	*adapter.Watch
	client cluster

	silent  atomic.Int32 // how many have yet to answer a look
	masters []string     // those of the latest look, sorted
}

func newNodes(client cluster) *nodes {
	c := &nodes{client: client}
	c.Watch = adapter.NewWatch(lookEvery, lookFor, c.refresh)
	return c
}

// Homes asks go-redis, which answers from memory once it has seen the cluster.
func (c *nodes) Homes(ctx context.Context, calls []redishold.Call) []string {
	homes := make([]string, len(calls))
	for i := range calls {
		if node, err := c.client.MasterForKey(ctx, key(&calls[i])); err == nil {
			homes[i] = node.Options().Addr
		}
	}
	return homes
}

// key returns what a call is routed by. A call without keys may go anywhere.
func key(call *redishold.Call) string {
	if len(call.Keys) == 0 {
		return ""
	}
	return call.Keys[0]
}

// At runs calls, which have the same home, on one node. A cluster client would
// send WAIT, which has no key, to any node.
func (c *nodes) At(ctx context.Context, node adapter.Destination, calls []redishold.Call) []redishold.Result {
	home, err := c.client.MasterForKey(ctx, key(&calls[0]))
	if err != nil {
		return adapter.Fail(len(calls), adapter.Classify(ctx, err, true))
	}
	if !node.Redirected {
		return run(ctx, home.Pipeline(), calls, false)
	}
	guest := c.visit(home, node.Addr)
	defer guest.Close()
	return run(ctx, guest.Pipeline(), calls, node.Asking)
}

// visit returns a client for the node at addr, as go-redis would make it. It
// need not know that node yet, and does not give away its clients by address.
func (c *nodes) visit(sibling *redis.Client, addr string) *redis.Client {
	o := *sibling.Options()
	o.Addr, o.NodeAddress = addr, ""
	o.PoolSize, o.MinIdleConns = 1, 0
	// Its handlers would be registered with the sibling's processor a second time,
	// at which NewClient panics.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return c.client.Options().NewClient(&o)
}
