package adapter

import "context"

// Router finds the node that serves a channel.
type Router interface {
	// Route returns the node that serves a channel, as far as is known.
	Route(ctx context.Context, channel string) (Node, error)

	// Review reports that a result of Route may be wrong, for example because a node has
	// failed. Soon Route must know what the servers say now. Review does not wait for them.
	Review()
}

// Node is a server to which channels are routed.
type Node struct {
	Addr string // identifies the node
	Dial Dial
}

// Dial makes a link to a node. It is also the Router of a client that finds its only node by
// itself.
type Dial func(ctx context.Context, s *Session) (Link, error)

// Route returns the only node.
func (dial Dial) Route(context.Context, string) (Node, error) { return Node{Dial: dial}, nil }

// Review does nothing.
func (Dial) Review() {}
