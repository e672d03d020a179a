package rueidisconn

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// Conn is a redishold.Conn, redishold.Single, redishold.Beginner and redishold.ListenerCounter
// over a rueidis client: these interfaces describe Do, DoOne, Begin, Subscribe, Listeners and
// Server. Package doctor uses Servers. Several goroutines may use a Conn at once.
//
// If Call.Replicas is set, the calls for a node use a connection of the node's pool, so that
// WAIT does not delay other calls. In a cluster, the Conn follows MOVED and ASK.
type Conn struct {
	*conn
	library *library
	end     func() // closes the connections that rueidis leaves open; nil for a Conn that New has made
}

type conn = adapter.Conn

// New returns a Conn over client, for a single server, Sentinels or a cluster. The caller
// closes the client after the last use of the Conn.
//
// ClientOption.ConnWriteTimeout and ClientOption.Dialer.KeepAlive decide how soon the client
// notices a dead connection, by default after about ten seconds.
//
// After a failover, rueidis switches to the new master when the Sentinels announce that master,
// when a connection breaks, or when a node redirects a call. Set
// SentinelOption.TopologyRefreshInterval and ClusterOption.ShardsRefreshInterval to a second or
// two, so that the switch does not depend on these events. With Sentinels, also set
// ClientOption.Dialer.Timeout and SentinelOption.Dialer.Timeout to a second. Advice has the
// reasons. rueidis keeps a connection that answers READONLY. If one address always leads to the
// current master, use goredisconn, which replaces such a connection.
//
// Leave ClientOption.ConnLifetime at 0. When the age of a connection reaches ConnLifetime,
// rueidis repeats calls whose answers it lost, also with DisableRetry. A call may then be
// executed twice, or be reported as not sent although it was executed. BlockingPoolSize must
// allow two connections to each node in addition to those of the program.
func New(client rueidis.Client) *Conn {
	l := newLibrary(client)
	var router adapter.Router = dial(client)
	if l.nodes != nil {
		router = l.nodes
	}
	return &Conn{conn: adapter.KeepLinks(adapter.New(l, router, 0)), library: l}
}

// closeGrace is how long calls in flight may still take when their client is closed. It is
// more than a second, because a call may wait a second for replicas.
const closeGrace = 1500 * time.Millisecond

// Close ends all subscriptions. It also closes the client if Open has made the Conn. A client
// that was passed to New stays open. Later calls of the Conn fail with driver.ErrClosed.
func (c *Conn) Close() {
	c.library.Close()
	adapter.Close(c.conn)
	if c.end != nil {
		c.library.client.Close()
		time.AfterFunc(closeGrace, c.end)
	}
}
