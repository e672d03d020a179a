package goredisconn

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
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

// Conn is a redishold.Conn over a go-redis client. It may be used by several
// goroutines at once.
type Conn struct {
	client  Client
	library *library
	runner  *adapter.Runner
	idle    *idle
	refused error // why the client cannot be used at all

	classic, home, sharded *adapter.Hub
}

var (
	_ redishold.Conn    = (*Conn)(nil)
	_ redishold.Adviser = (*Conn)(nil)
)

var errRing = errors.New("a redis.Ring cannot keep locks: its servers know nothing of each other, and a lock moves when one of them fails; use redis.Client, redis.ClusterClient or quorum.Of")

// refusal is an error for which nothing was sent and nothing would help.
type refusal struct{ error }

// Unwrap returns the reason, and what it means for a lock.
func (r *refusal) Unwrap() []error {
	return []error{r.error, driver.ErrRefused, driver.ErrNotExecuted}
}

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
	c := &Conn{client: client, library: newLibrary(client), idle: newIdle(client)}
	c.runner = adapter.NewRunner(c.library)
	if _, ring := client.(*redis.Ring); ring {
		c.refused = &refusal{errRing}
	}
	c.classic = adapter.NewHub(pingAfter, c.link(redishold.Channel{}))
	c.home = adapter.NewHub(pingAfter, c.link(redishold.Channel{Home: true}))
	c.sharded = adapter.NewHub(pingAfter, c.link(redishold.Channel{Sharded: true}))
	return c
}

// Advice returns the settings of the client that keep locks out of reach for longer
// than five seconds after the loss of a machine.
func (c *Conn) Advice() []redishold.Advice {
	if named, ok := c.client.(interface{ Options() *redis.Options }); ok {
		return advice(named.Options())
	}
	return nil
}

// Server asks the server with one INFO. In a cluster it is any one of the nodes.
func (c *Conn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	if err := c.refuse(ctx); err != nil {
		return redishold.ServerInfo{}, err
	}
	r, err := adapter.Guard(ctx, func() redishold.Result {
		cmd := command(ctx, "info")
		_ = c.client.Process(ctx, once{cmd}) // cmd has the error as well
		return result(ctx, cmd)
	})
	if err != nil {
		return redishold.ServerInfo{}, err
	}
	c.library.notice(ctx, r.Err)
	return adapter.Server(r)
}

// Do runs calls as redishold.Conn says. In a cluster, the calls for each node are
// one pipeline over one connection of its pool, and MOVED and ASK are followed
// over a connection that is made for it.
func (c *Conn) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	if err := c.refuse(ctx); err != nil {
		return adapter.Fail(len(calls), err)
	}
	results := c.runner.Do(ctx, calls)
	for i := range results {
		if errors.Is(results[i].Err, redis.ErrClosed) {
			c.library.notice(ctx, results[i].Err)
			break
		}
		c.idle.noted(results[i].Err)
	}
	return results
}

// DoOne runs a call as redishold.Single says. Unless the client is for a cluster
// or the call asks for replicas, it travels in one pipeline with others that are
// made at about the same time.
func (c *Conn) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	if err := c.refuse(ctx); err != nil {
		return redishold.Result{Err: err}
	}
	r := c.runner.DoOne(ctx, call)
	c.idle.noted(r.Err)
	return r
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
	if c.refused != nil {
		return c.refused
	}
	if c.library.closed.Load() {
		return adapter.Closed(redis.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return adapter.NotSent(err)
	}
	return nil
}
