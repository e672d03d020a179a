package adapter

import (
	"context"
	"sync"
)

// Router finds the node that serves a channel.
type Router interface {
	// Route returns the node that serves a channel, as far as is known.
	Route(ctx context.Context, channel string) (Node, error)

	// Review reports that a result of Route was wrong, or that a node has failed. The parameter
	// `failed` is the address of that node, or "" if no node has failed. The next call of Route
	// must ask the servers. Review does not wait for them.
	Review(failed string)
}

// Node is a server to which channels are routed.
type Node struct {
	Addr string // identifies the node
	Key  string // a key whose slot the node has, if the library finds nodes by a key; otherwise ""
	Dial Dial
}

// Dial makes a link to a node. It is also the Router of a client that finds its only node by
// itself.
type Dial func(ctx context.Context, s *Session) (Link, error)

// Route returns the only node.
func (dial Dial) Route(context.Context, string) (Node, error) { return Node{Dial: dial}, nil }

// Review does nothing.
func (Dial) Review(string) {}

// Topology is the Router of a cluster: it routes a channel to the node of its slot.
type Topology interface {
	Router

	// Any returns the node with the address stay.Addr if that node still has slots, otherwise
	// another node with slots. It returns the node with the address `failed` only if no other
	// node has slots.
	Any(ctx context.Context, stay Node, failed string) (Node, error)
}

// stickyRouter is the Router for classic channels: every node gets their messages. It stays
// with one node until that node fails or leaves the cluster. It must find out itself that a
// node has left, because no library notices that: the connection to the node stays open, and
// gets no messages.
type stickyRouter struct {
	nodes Topology

	mu     sync.Mutex
	chosen Node   // the node of all channels; without an Addr if no node is chosen
	failed string // address of the node that failed last, which is chosen only if there is no other node
}

func (a *stickyRouter) Route(ctx context.Context, _ string) (Node, error) {
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
		case node.Addr == a.failed && failed != a.failed: // the node failed meanwhile
			continue
		case a.chosen.Addr == "" || a.chosen.Addr == before.Addr: // no other goroutine has chosen a node meanwhile
			a.chosen = node
		}
		return a.chosen, nil
	}
}

// Review implements Router. Afterwards, Route chooses another node than the failed node, if
// there is another.
func (a *stickyRouter) Review(failed string) {
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
