package adapter

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/redishold"
)

// Router knows which node serves a channel.
type Router interface {
	// Route returns the node that serves a channel, as far as is known.
	Route(ctx context.Context, channel string) (Node, error)

	// Doubt says that what Route answered has proved wrong, or that the node at
	// addr ("" for none) has failed: the next answer has to come from the servers.
	// It does not wait for them.
	Doubt(addr string)
}

// Node is where channels are served.
type Node struct {
	Addr string // tells nodes apart
	Dial func(ctx context.Context, ev Events) (Link, error)
}

// Fixed is the Router of a client that finds the node by itself when it dials.
type Fixed func(ctx context.Context, ev Events) (Link, error)

// Route returns the one node there is.
func (dial Fixed) Route(context.Context, string) (Node, error) { return Node{Dial: dial}, nil }

// Doubt does nothing.
func (Fixed) Doubt(string) {}

// isElsewhere reports whether a refusal says that the channel's slot is served by
// another node.
func isElsewhere(err error) bool { return hasCode(err, "MOVED ") }

// isNowhere reports whether a refusal says that the channel's slot is served by
// nobody at the moment.
func isNowhere(err error) bool { return hasCode(err, "CLUSTERDOWN ") }

func hasCode(err error, code string) bool {
	var reply *redishold.ReplyError
	return errors.As(err, &reply) && strings.HasPrefix(reply.Text, code)
}
