package goredisconn

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// pingAfter is the interval at which the connection for subscriptions is checked. If nothing
// was received since the last check, the check sends a PING. If nothing is received until the
// next check either, the connection is closed.
const pingAfter = 2 * time.Second

// Client is the interface to a go-redis client. *redis.Client, *redis.ClusterClient and
// redis.UniversalClient implement it. *redis.Ring implements it, too, but is refused,
// because it distributes keys over independent servers.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Conn is a redishold.Conn, redishold.Single, redishold.Beginner and redishold.ListenerCounter
// over a go-redis client: these interfaces describe Do, DoOne, Begin, Subscribe, Listeners and
// Server. Package doctor uses Servers. Several goroutines may use a Conn at once.
//
// In a cluster, those calls of one Do that go to the same node are one pipeline, over one
// connection of the pool of that node. The Conn follows MOVED and ASK over a new connection.
type Conn struct {
	*conn
	client Client
}

type conn = adapter.Conn

var _ redishold.Adviser = (*Conn)(nil)

// New returns a Conn over client. The caller closes the client after the last use of the Conn.
// The Conn needs no Close: its connections for subscriptions end 100 ms after the last
// subscription.
//
// go-redis replaces a connection that answers READONLY, and a failover client asks the
// Sentinels for each new connection. If a node of a cluster does not answer, the Conn makes the
// client read the slots again. Each call to a node that hangs may occupy a connection of the
// pool, for up to ReadTimeout.
//
// On a single server, calls at about the same time share a pipeline. Hooks of the client see
// the pipeline, or a call that is alone. The context of both ends when no caller waits any more,
// and has no values of the callers' contexts.
func New(client Client) *Conn {
	l := newLibrary(client)
	var router adapter.Router = dial(client.Subscribe)
	if l.nodes != nil {
		router = l.nodes
	}
	return &Conn{adapter.KeepLinks(adapter.New(l, router, pingAfter)), client}
}

// Advice returns the client settings that make locks unreachable for longer than five
// seconds after the loss of a machine.
func (c *Conn) Advice() []redishold.Advice {
	if named, ok := c.client.(interface{ Options() *redis.Options }); ok {
		return advice(named.Options())
	}
	return nil
}
