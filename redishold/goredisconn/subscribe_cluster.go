package goredisconn

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// go-redis' own PubSub of a cluster stays at the node of its first channel, or at
// one that it draws at random. Those of its clients for the single nodes serve
// all of their node.

// masters finds the nodes of channels that belong to a slot.
type masters struct {
	nodes   *nodes
	sharded bool
}

// Route returns the master of the channel's slot.
func (m masters) Route(ctx context.Context, channel string) (adapter.Node, error) {
	return m.nodes.link(ctx, channel, m.sharded)
}

// Doubt makes go-redis look at the cluster again.
func (m masters) Doubt(string) { m.nodes.review() }

// link returns the master of key's slot as a node to link to. go-redis answers
// from memory once it has seen the cluster.
func (c *nodes) link(ctx context.Context, key string, sharded bool) (adapter.Node, error) {
	type found struct {
		master *redis.Client
		err    error
	}
	f, err := adapter.Guard(ctx, func() found {
		master, err := c.client.MasterForKey(ctx, key)
		return found{master, err}
	})
	switch {
	case err != nil:
		return adapter.Node{}, adapter.NotSent(err)
	case f.err != nil:
		return adapter.Node{}, adapter.Classify(ctx, f.err, true)
	}
	return adapter.Node{Addr: f.master.Options().Addr, Dial: dial(f.master.Subscribe, sharded)}, nil
}

// anywhere finds a node for the classic channels, which each node has: it stays
// with one until that fails or leaves the cluster, after which it would hear
// nothing and not say so.
type anywhere struct {
	nodes *nodes

	mu     sync.Mutex
	chosen choice
	failed string // the latest node that did; any other is better
}

// choice is a master, and a key that has led to it. As long as it does, the node
// is part of the cluster.
type choice struct {
	key  string // "" for none
	node adapter.Node
}

// Route returns the chosen node while it is the master of its key, and otherwise
// chooses one.
func (a *anywhere) Route(ctx context.Context, _ string) (adapter.Node, error) {
	a.mu.Lock()
	before, failed := a.chosen, a.failed
	a.mu.Unlock()
	if before.key != "" {
		node, err := a.nodes.link(ctx, before.key, false)
		if err != nil || node.Addr == before.node.Addr {
			return node, err
		}
	}
	next, err := a.choose(ctx, failed)
	if err != nil {
		return adapter.Node{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.chosen.key == "" || a.chosen.key == before.key { // nobody was faster
		a.chosen = next
	}
	return a.chosen.node, nil
}

// choose draws a master, another one than that at failed if it can.
func (a *anywhere) choose(ctx context.Context, failed string) (c choice, err error) {
	for range 20 {
		c.key = strconv.Itoa(rand.N(1 << 20)) //nolint:gosec // spreads load, protects nothing
		c.node, err = a.nodes.link(ctx, c.key, false)
		if err != nil || c.node.Addr != failed {
			break
		}
	}
	return c, err
}

// Doubt makes go-redis look at the cluster again, and the next Route leave addr.
func (a *anywhere) Doubt(addr string) {
	a.nodes.review()
	if addr == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = addr
	if a.chosen.node.Addr == addr {
		a.chosen = choice{}
	}
}
