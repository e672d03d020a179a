package goredisconn

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// pingAfter is how often the connection of the subscriptions is looked at. One
// that was silent is sent a PING, and given up if it is still silent at the next
// look.
const pingAfter = 2 * time.Second

// Client is what is needed of a go-redis client: *redis.Client,
// *redis.ClusterClient and redis.UniversalClient have it. *redis.Ring has it
// too, but is refused, as it spreads keys over servers that know nothing of each
// other.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Conn is a redishold.Conn, redishold.Single and redishold.Beginner over a go-redis
// client: what Do, DoOne, Begin, Subscribe and Server promise stands there. Package
// doctor looks at the servers with Servers. A Conn may be used by several goroutines at
// once.
//
// In a cluster, the calls for each node that are made with one Do are one pipeline over
// one connection of its pool, and MOVED and ASK are followed over a connection that is
// made for it.
type Conn struct {
	*conn
	client Client
}

type conn = adapter.Conn

var _ redishold.Adviser = (*Conn)(nil)

// New returns a Conn over a client that the caller owns and closes, after the
// Conn's last use. The Conn itself needs no closing: its connection for
// subscriptions lives as long as there are any.
//
// go-redis replaces a connection that answers READONLY, and a failover client
// asks the Sentinels for each new one. A cluster client is made to look again
// where keys live when a node does not answer; one that hangs may keep as many
// connections of its pool busy as calls were made within ReadTimeout.
//
// On a single server, calls that are made at about the same time travel in one
// pipeline. Hooks of the client see that, with a context that ends when nobody
// waits for any of the calls and carries no values of theirs.
func New(client Client) *Conn {
	l := newLibrary(client)
	if l.nodes != nil {
		return &Conn{adapter.NewCluster(l, pingAfter, l.nodes), client}
	}
	return &Conn{adapter.New(l, pingAfter, dial(client.Subscribe)), client}
}

// Advice returns the settings of the client that keep locks unreachable for longer
// than five seconds after the loss of a machine.
func (c *Conn) Advice() []redishold.Advice {
	if named, ok := c.client.(interface{ Options() *redis.Options }); ok {
		return advice(named.Options())
	}
	return nil
}
