package adapter

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// Conn is a redishold.Conn over a Client. Where that has a single server, calls that
// are made one by one travel together.
type Conn struct {
	client   Client
	pipeline send      // that of client, made once
	noter    Noter     // nil if nobody wants to know
	cluster  Cluster   // nil where all keys live on one server
	combiner *Combiner // nil for a cluster
	masters  Masters   // the cluster; nil where calls always go to the same server

	classic, home, sharded *Hub
}

var (
	_ redishold.Conn     = (*Conn)(nil)
	_ redishold.Single   = (*Conn)(nil)
	_ redishold.Beginner = (*Conn)(nil)
)

// New returns a Conn over a client for a single server, to which dial leads. As for
// check, see NewHub.
func New(client Client, check time.Duration, dial Dial) *Conn {
	c := newConn(client, check, dial, dial)
	c.combiner = NewCombiner(noticing{client})
	if s, ok := client.(Switcher); ok {
		c.masters = watchServers(s, c.combiner)
	}
	return c
}

// NewCluster returns a Conn over a client for a cluster.
func NewCluster(client Client, check time.Duration, cluster Cluster) *Conn {
	c := newConn(client, check, &anywhere{nodes: cluster}, cluster)
	c.cluster, c.masters = cluster, cluster
	return c
}

// newConn returns a Conn whose subscriptions to classic channels go to any one node,
// apart from those that are to be at home; those go to the node of the channel's slot,
// as do those to sharded channels.
func newConn(client Client, check time.Duration, anywhere, home Router) *Conn {
	c := &Conn{client: client, pipeline: client.Pipeline, classic: NewHub(check, anywhere), home: NewHub(check, home), sharded: NewHub(check, home)}
	c.sharded.sharded = true
	c.noter, _ = client.(Noter)
	return c
}

// Close ends all subscriptions and waits until their connections are closed. It is no
// method, as not every Conn of a client library is to have one.
func Close(c *Conn) {
	for _, hub := range []*Hub{c.classic, c.home, c.sharded} {
		hub.Close()
	}
}

// Do runs calls as redishold.Conn says.
func (c *Conn) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	if len(calls) == 1 && c.combines(&calls[0]) {
		return []redishold.Result{c.DoOne(ctx, &calls[0])}
	}
	if err := c.refuse(ctx); err != nil {
		return Fail(len(calls), err)
	}
	results := c.run(ctx, calls)
	if c.noter != nil {
		c.noter.Noted(results)
	}
	return results
}

// DoOne runs a call as redishold.Single says. Unless the client is for a cluster or
// the call asks for replicas, it travels in one pipeline with others that are made at
// about the same time.
func (c *Conn) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	if !c.combines(call) {
		return c.Do(ctx, *call)[0]
	}
	if err := c.refuse(ctx); err != nil {
		return redishold.Result{Err: err}
	}
	result := c.combiner.DoOne(ctx, call)
	if c.noter != nil && result.Err != nil {
		results := []redishold.Result{result}
		c.noter.Noted(results)
		return results[0]
	}
	return result
}

// Begin queues a call as redishold.Beginner says.
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

// Subscribe listens on ch over a connection that carries nothing but subscriptions:
// one for all classic channels but those that are to be at home, and one for all of
// those and one for all sharded channels of each node. It fails at once if that
// connection cannot be made. notify must not close the Subscription.
func (c *Conn) Subscribe(ctx context.Context, ch redishold.Channel, notify func(redishold.Notice)) (redishold.Subscription, error) {
	if err := c.client.Refuse(); err != nil {
		return nil, err
	}
	hub := c.classic
	switch {
	case ch.Sharded:
		hub = c.sharded
	case ch.Home:
		hub = c.home
	}
	return hub.Subscribe(ctx, ch.Name, notify)
}

// Server asks the server with one INFO. In a cluster it is any one of the nodes.
func (c *Conn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	return Server(c.guarded(c.client.Ask)(ctx, "INFO"))
}

// Servers returns how to ask each server that the client knows, by its address: one,
// the master with Sentinels ("FailoverClient", as go-redis calls it), every node of a
// cluster. Whether they answer, it does not say. Package doctor looks at them with it.
//
// A question is sent at most once, and returns when its context ends. Its answer is as
// the server gave it, and may be a map; the error of a Result is as in Do.
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

// guarded returns a question that is not asked where no call can be made, and whose
// context ends it.
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

// refuse returns the error of a call that need not be tried.
func (c *Conn) refuse(ctx context.Context) error {
	if err := c.client.Refuse(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return NotSent(err)
	}
	return nil
}

// run runs calls that are not combined. Those to a server that is replaced meanwhile
// end. In a cluster each node's answers count by themselves: a node that stands still
// costs the calls that it was sent, not the others.
func (c *Conn) run(ctx context.Context, calls []redishold.Call) []redishold.Result {
	var results []redishold.Result
	switch {
	case len(calls) == 0:
		return nil
	case c.cluster == nil, len(calls) == 1 && calls[0].Replicas == 0:
		results = c.atHome(ctx, calls, c.pipeline)
	default:
		results = c.spread(ctx, calls)
	}
	c.client.Notice(ctx, results)
	if c.masters != nil && slices.ContainsFunc(results, func(r redishold.Result) bool { return doubtful(r.Err) }) {
		c.masters.Suspect()
	}
	return results
}

// send sends calls with one home together.
type send func(ctx context.Context, calls []redishold.Call) []redishold.Result

// atHome runs calls with one home, until another node is found to be their master.
func (c *Conn) atHome(ctx context.Context, calls []redishold.Call, send send) []redishold.Result {
	results, err := whileMaster(ctx, c.masters, calls, func() []redishold.Result { return complete(ctx, calls, send) })
	if err != nil {
		return Fail(len(calls), err)
	}
	return results
}

func (c *Conn) combines(call *redishold.Call) bool {
	return c.combiner != nil && call.Replicas == 0
}

// noticing is a Client that notices, of what a Combiner sends, that it is closed.
type noticing struct{ Client }

func (n noticing) Send(ctx context.Context, calls []*redishold.Call, results []redishold.Result) {
	n.Client.Send(ctx, calls, results)
	n.Notice(ctx, results)
}
