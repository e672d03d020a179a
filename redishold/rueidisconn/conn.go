package rueidisconn

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// Conn is a redishold.Conn, redishold.Single and redishold.Beginner over a rueidis
// client: what Do, DoOne, Begin, Subscribe and Server promise stands there. Package
// doctor looks at the servers with Servers. A Conn may be used by several goroutines at
// once.
//
// Where Call.Replicas is set, the calls for one node go over a connection from its
// pool, so that WAIT delays nobody else. In a cluster MOVED and ASK are followed.
type Conn struct {
	*conn
	library *library
	end     func() // closes what rueidis leaves open; nil if the client is not ours to close
}

type conn = adapter.Conn

var _ redishold.Adviser = (*Conn)(nil)

// New returns a Conn over a client that the caller owns and closes, after the
// Conn's last use. A client for a single server, a sentinel set or a cluster
// serves.
//
// How soon a dead connection is noticed is the client's setting:
// ClientOption.ConnWriteTimeout and ClientOption.Dialer.KeepAlive, by default
// about ten seconds. Calls return with their context all the same.
//
// After a failover rueidis goes to the new master when the Sentinels tell it,
// when a connection breaks, or when a node redirects it. So that it does not
// depend on those, set SentinelOption.TopologyRefreshInterval and
// ClusterOption.ShardsRefreshInterval to a second or two; without the former, a
// client that missed the Sentinels' message stays with the old master, which
// answers READONLY, or whose machine is gone. So that a machine that is lost with
// the master and a Sentinel costs a few seconds at most, set with Sentinels
// ClientOption.Dialer.Timeout and SentinelOption.Dialer.Timeout to a second. rueidis
// keeps a connection that answers READONLY: where one address leads to the current
// the master now, use goredisconn, which replaces it.
//
// Leave ClientOption.ConnLifetime at 0: at its end rueidis sends calls again
// whose answers it lost, DisableRetry or not, so that a call may be executed
// twice, or be reported as not sent though it was executed. BlockingPoolSize must
// leave room for two connections to each node beyond those that the program uses.
func New(client rueidis.Client) *Conn {
	l := newLibrary(client)
	if l.nodes != nil {
		return &Conn{conn: adapter.NewCluster(l, 0, l.nodes), library: l}
	}
	return &Conn{conn: adapter.New(l, 0, dial(client)), library: l}
}

// closeGrace is how long calls under way may still take when their client is closed:
// more than the second for which one may wait for replicas.
const closeGrace = 1500 * time.Millisecond

// Close ends all subscriptions and, if the Conn comes from Open, closes its
// client. A client that was handed to New stays open. Calls that come later
// fail with driver.ErrClosed.
func (c *Conn) Close() {
	c.library.Close()
	adapter.Close(c.conn)
	if c.end != nil {
		c.library.client.Close()
		time.AfterFunc(closeGrace, c.end)
	}
}
