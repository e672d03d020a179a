package adapter

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
)

// Conn is a redishold.Conn over a Client. If the Client has a single server, calls that are
// made at about the same time share a pipeline.
type Conn struct {
	client   Client
	cluster  Cluster   // nil if all keys are on one server
	combiner *Combiner // nil for a cluster
	masters  Masters   // nil if calls always go to the same server

	classic, sharded *Hub
}

// New returns a Conn over a client. The Router is a Dial if the client is for a single server,
// and a Cluster if it is for a cluster. The parameter `check` is the interval at which the links
// are checked: see NewHub.
func New(client Client, router Router, check time.Duration) *Conn {
	c := &Conn{client: client, classic: NewHub(check, router), sharded: NewHub(check, router)}
	c.sharded.sharded = true
	if cluster, ok := router.(Cluster); ok {
		c.cluster, c.masters = cluster, cluster
		return c
	}
	c.combiner = NewCombiner(client)
	c.combiner.failed = c.failed
	if s, ok := client.(Switcher); ok {
		c.masters = pollMasters(s, c.combiner)
	}
	return c
}

// idleFor is how long a link stays open without channels, see KeepLinks. A process that wants a lock
// again and again has no waiter for a moment, and a new link needs several round trips. The time is
// short, because a client that was closed does not close its links.
const idleFor = 100 * time.Millisecond

// KeepLinks makes the links of a new Conn stay open for the time idleFor without channels. Its links
// must report the reply to each UNSUBSCRIBE to the Session, also if that reply is an error. It is
// no parameter of New: an older version of an adapter works with a newer version of this package.
func KeepLinks(c *Conn) *Conn {
	c.classic.idle, c.sharded.idle = idleFor, idleFor
	return c
}

// Close ends all subscriptions of c and waits until their connections are closed. Close is not
// a method, because the Conn of package goredisconn embeds the Conn of this package and would
// get that method, too.
func Close(c *Conn) {
	c.classic.Close()
	c.sharded.Close()
}

// Do implements redishold.Conn.
func (c *Conn) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	if len(calls) == 1 && c.combines(&calls[0]) {
		return []redishold.Result{c.DoOne(ctx, &calls[0])}
	}
	if err := c.refuse(ctx); err != nil {
		return Fail(len(calls), err)
	}
	return c.run(ctx, calls)
}

// DoOne implements redishold.Single.
func (c *Conn) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	if !c.combines(call) {
		return c.Do(ctx, *call)[0]
	}
	if err := c.refuse(ctx); err != nil {
		return redishold.Result{Err: err}
	}
	return c.combiner.DoOne(ctx, call)
}

// Begin implements redishold.Beginner.
func (c *Conn) Begin(ctx context.Context, call *redishold.Call) (finish func() redishold.Result) {
	if err := c.refuse(ctx); err != nil {
		return func() redishold.Result { return redishold.Result{Err: err} }
	}
	if c.combines(call) {
		return c.combiner.Begin(ctx, call)
	}
	calls, answer := []redishold.Call{*call}, make(chan redishold.Result, 1)
	go func() { answer <- c.run(ctx, calls)[0] }()
	return func() redishold.Result { return <-answer }
}

// Subscribe implements redishold.Conn. Its connections are for subscriptions only. Each node has
// one connection for classic channels, and one for sharded channels. Subscribe fails at once if
// the connection cannot be made. notify must not close the Subscription.
func (c *Conn) Subscribe(ctx context.Context, ch redishold.Channel, notify func(redishold.Notice)) (redishold.Subscription, error) {
	if err := c.client.Refuse(); err != nil {
		return nil, err
	}
	return c.hub(ch).Subscribe(ctx, ch.Name, notify)
}

// Listeners implements redishold.ListenerCounter.
func (c *Conn) Listeners(ch redishold.Channel) int { return c.hub(ch).Listeners(ch.Name) }

// hub returns the Hub for channels of the kind of ch.
func (c *Conn) hub(ch redishold.Channel) *Hub {
	if ch.Sharded {
		return c.sharded
	}
	return c.classic
}

// Server implements redishold.Conn. It sends one INFO, in a cluster to any node.
func (c *Conn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	return Server(c.guarded(c.client.Ask)(ctx, "INFO"))
}

// Servers returns a Question for each server that the client knows. The keys of the map are the
// addresses of the servers. The servers are one single server, or the master that the Sentinels
// have named (its address is "FailoverClient" in go-redis), or every node of a cluster. The
// method does not find out whether the servers answer. Package doctor uses Servers.
//
// A Question sends its command at most once, and returns when its context ends. The Value of
// its Result is the reply of the server, which may be a map; the Err is as in Do.
func (c *Conn) Servers(ctx context.Context) (map[string]Question, error) {
	if err := c.refuse(ctx); err != nil {
		return nil, err
	}
	servers, err := Try(ctx, func() (map[string]Question, error) { return c.client.Servers(ctx) })
	if err != nil {
		return nil, Classify(ctx, err, true)
	}
	for addr, ask := range servers {
		servers[addr] = c.guarded(ask)
	}
	return servers, nil
}

// guarded returns a Question that sends nothing if the Conn refuses calls, and that returns
// when its context ends.
func (c *Conn) guarded(ask Question) Question {
	return func(ctx context.Context, command ...string) redishold.Result {
		if err := c.refuse(ctx); err != nil {
			return redishold.Result{Err: err}
		}
		r := Answer(ctx, func() redishold.Result { return ask(ctx, command...) })
		c.client.Notice(ctx, []redishold.Result{r})
		return r
	}
}

// refuse returns the error of a call that must not be sent, or nil if the call may be sent.
func (c *Conn) refuse(ctx context.Context) error {
	if err := c.client.Refuse(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return unsent.Error(err)
	}
	return nil
}

// run runs calls that are not combined. If the master of the calls is replaced meanwhile, the
// calls fail. In a cluster, a node that hangs delays only the calls for that node.
func (c *Conn) run(ctx context.Context, calls []redishold.Call) []redishold.Result {
	var results []redishold.Result
	switch {
	case len(calls) == 0:
		return nil
	case c.cluster == nil, len(calls) == 1:
		results = c.atHome(ctx, calls)
	default:
		results = c.spread(ctx, calls)
	}
	c.failed(ctx, results)
	return results
}

// failed finds out from errors whether the client is closed, and whether its server is no master
// any more.
func (c *Conn) failed(ctx context.Context, results []redishold.Result) {
	c.client.Notice(ctx, results)
	if c.masters != nil && slices.ContainsFunc(results, func(r redishold.Result) bool { return suspectsMaster(r.Err) }) {
		c.masters.Suspect()
	}
}

// atHome runs calls for one node, until another node becomes the master of their keys.
func (c *Conn) atHome(ctx context.Context, calls []redishold.Call) []redishold.Result {
	results, err := whileMaster(ctx, c.masters, calls, func() []redishold.Result { return c.complete(ctx, calls) })
	if err != nil {
		return Fail(len(calls), err)
	}
	return results
}

func (c *Conn) combines(call *redishold.Call) bool {
	return c.combiner != nil && call.Replicas == 0
}
