package adapter

import (
	"context"
	"sync"
)

// Router knows which node serves a channel.
type Router interface {
	// Route returns the node that serves a channel, as far as is known.
	Route(ctx context.Context, channel string) (Node, error)

	// Review says that what Route answered has proved wrong, or that the node at failed
	// ("" for none) has failed: the next answer has to come from the servers. It does
	// not wait for them.
	Review(failed string)
}

// Node is where channels are served.
type Node struct {
	Addr string // distinguishes nodes
	Key  string // one that the node serves, where the library finds nodes by a key
	Dial Dial
}

// Dial makes a link to a node. It is also the Router of a client that finds the node
// by itself.
type Dial func(ctx context.Context, s *Session) (Link, error)

// Route returns the one node there is.
func (dial Dial) Route(context.Context, string) (Node, error) { return Node{Dial: dial}, nil }

// Review does nothing.
func (Dial) Review(string) {}

// Topology is the Router of a cluster to the nodes of slots.
type Topology interface {
	Router

	// Any returns the node at stay.Addr, if that still has slots, and otherwise a node
	// that has, another one than that at failed if there is one.
	Any(ctx context.Context, stay Node, failed string) (Node, error)
}

// anywhere is the Router of channels that each node has: it stays with one node until
// that fails or leaves the cluster. No library would notice the latter: the connection
// stays open, and silent.
type anywhere struct {
	nodes Topology

	mu     sync.Mutex
	chosen Node   // no Addr for none
	failed string // the latest that did; any other is better
}

func (a *anywhere) Route(ctx context.Context, _ string) (Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		before, failed := a.chosen, a.failed
		a.mu.Unlock()
		node, err := a.nodes.Any(ctx, before, failed)
		a.mu.Lock()
		switch {
		case err != nil:
			return Node{}, err
		case node.Addr == a.failed && failed != a.failed: // it failed meanwhile
			continue
		case a.chosen.Addr == "" || a.chosen.Addr == before.Addr: // nobody was faster
			a.chosen = node
		}
		return a.chosen, nil
	}
}

// Review has the cluster looked at again, and the next Route leave the node at failed.
func (a *anywhere) Review(failed string) {
	a.nodes.Review(failed)
	if failed == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = failed
	if a.chosen.Addr == failed {
		a.chosen = Node{}
	}
}
