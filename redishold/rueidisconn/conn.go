package rueidisconn

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// Conn is a redishold.Conn over a rueidis client. It may be used by several
// goroutines at once.
type Conn struct {
	client  rueidis.Client
	library *library
	runner  *adapter.Runner
	own     bool // the client is ours to close

	classic, home, sharded *adapter.Hub
}

var (
	_ redishold.Conn    = (*Conn)(nil)
	_ redishold.Adviser = (*Conn)(nil)
)

// New returns a Conn over a client that the caller owns and closes, after the
// Conn's last use. A client for a single server, a sentinel set or a cluster
// serves.
//
// How soon a dead connection is noticed is the client's setting:
// ClientOption.ConnWriteTimeout and ClientOption.Dialer.KeepAlive, by default
// about ten seconds. Calls return with their context all the same.
//
// After a fail-over rueidis goes to the new master when the Sentinels tell it,
// when a connection breaks, or when a node redirects it. So that it does not
// depend on those, set SentinelOption.TopologyRefreshInterval and
// ClusterOption.ShardsRefreshInterval to a second or two; without the former, a
// client that missed the Sentinels' message stays with the old master, which
// answers READONLY, or whose machine is gone. So that a machine that is lost with
// the master and a Sentinel costs a few seconds at most, set with Sentinels
// ClientOption.Dialer.Timeout and SentinelOption.Dialer.Timeout to a second. rueidis
// keeps a connection that answers READONLY: where one address leads to whoever is
// the master now, use goredisconn, which replaces it.
//
// Leave ClientOption.ConnLifetime at 0: at its end rueidis sends calls again
// whose answers it lost, DisableRetry or not, so that a call may be executed
// twice, or be reported as not sent though it was executed. BlockingPoolSize must
// leave room for two connections to each node beyond those that the program uses.
func New(client rueidis.Client) *Conn {
	c := &Conn{client: client, library: newLibrary(client)}
	c.runner = adapter.NewRunner(c.library)
	c.classic = adapter.NewHub(0, c.link(redishold.Channel{}))
	c.home = adapter.NewHub(0, c.link(redishold.Channel{Home: true}))
	c.sharded = adapter.NewHub(0, c.link(redishold.Channel{Sharded: true}))
	return c
}

// Close ends all subscriptions and, if the Conn comes from Open, closes its
// client. A client that was handed to New stays open. Calls that come later
// fail with driver.ErrClosed.
func (c *Conn) Close() {
	c.library.closed.Store(true)
	c.classic.Close()
	c.home.Close()
	c.sharded.Close()
	if c.own {
		c.client.Close()
	}
}

// Server asks the server with one INFO. In a cluster it is any one of the nodes.
func (c *Conn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	if err := c.refuse(ctx); err != nil {
		return redishold.ServerInfo{}, err
	}
	r, err := adapter.Guard(ctx, func() redishold.Result {
		return result(ctx, c.client.Do(undated{ctx}, c.client.B().Info().Build()))
	})
	if err != nil {
		return redishold.ServerInfo{}, err
	}
	return adapter.Server(r)
}

// Do runs calls as redishold.Conn says. Where Call.Replicas is set, the calls
// for one node go over a connection from its pool, so that WAIT delays nobody
// else. In a cluster MOVED and ASK are followed.
func (c *Conn) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	if err := c.refuse(ctx); err != nil {
		return adapter.Fail(len(calls), err)
	}
	return c.runner.Do(ctx, calls)
}

// DoOne runs a call as redishold.Single says. Unless the client is for a cluster
// or the call asks for replicas, it travels in one pipeline with others that are
// made at about the same time.
func (c *Conn) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	if err := c.refuse(ctx); err != nil {
		return redishold.Result{Err: err}
	}
	return c.runner.DoOne(ctx, call)
}

// Begin queues a call as redishold.Beginner says.
func (c *Conn) Begin(ctx context.Context, call *redishold.Call) (finish func() redishold.Result) {
	if err := c.refuse(ctx); err != nil {
		return adapter.Refused(err)
	}
	return c.runner.Begin(ctx, call)
}

// refuse returns the error of a call that need not be tried.
func (c *Conn) refuse(ctx context.Context) error {
	if c.library.closed.Load() {
		return adapter.Closed(rueidis.ErrClosing)
	}
	if err := ctx.Err(); err != nil {
		return adapter.NotSent(err)
	}
	return nil
}
