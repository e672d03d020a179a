package rueidisconn

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// Conn is a redishold.Conn over a rueidis client. It may be used by several
// goroutines at once.
type Conn struct {
	client rueidis.Client
	own    bool        // the client is ours to close
	closed atomic.Bool // the client is closed: nothing is sent any more

	classic, sharded *adapter.Hub
}

var _ redishold.Conn = (*Conn)(nil)

// New returns a Conn over a client that the caller owns and closes, after the
// Conn's last use. A client for a single server, a sentinel set or a cluster
// serves.
//
// How soon a dead connection is noticed is the client's setting:
// ClientOption.ConnWriteTimeout and ClientOption.Dialer.KeepAlive, by default
// about ten seconds. Calls return with their context all the same.
func New(client rueidis.Client) *Conn {
	c := &Conn{client: client}
	c.classic = adapter.NewHub(0, c.link(false))
	c.sharded = adapter.NewHub(0, c.link(true))
	return c
}

// Close ends all subscriptions and, if the Conn comes from Open, closes its
// client. A client that was handed to New stays open. Calls that come later
// fail with driver.ErrNotSent.
func (c *Conn) Close() {
	c.closed.Store(true)
	c.classic.Close()
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
// go over a connection of their own, so that WAIT delays nobody else. In a
// cluster such a call is not redirected: while its slot moves, the answer is the
// server's MOVED.
func (c *Conn) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	if err := c.refuse(ctx); err != nil {
		return adapter.Fail(len(calls), err)
	}
	if len(calls) == 1 && calls[0].Replicas == 0 {
		r, err := adapter.Guard(ctx, func() redishold.Result { return c.one(ctx, &calls[0]) })
		if err != nil {
			r.Err = err
		}
		return []redishold.Result{r}
	}
	if len(calls) == 0 {
		return nil
	}
	results, err := adapter.Guard(ctx, func() []redishold.Result { return c.many(ctx, calls) })
	if err != nil {
		return adapter.Fail(len(calls), err)
	}
	return results
}

// refuse returns the error of a call that need not be tried.
func (c *Conn) refuse(ctx context.Context) error {
	if c.closed.Load() {
		return adapter.NotSent(rueidis.ErrClosing)
	}
	if err := ctx.Err(); err != nil {
		return adapter.NotSent(err)
	}
	return nil
}

// one runs a single call. It repeats it as EVAL if the server does not know the
// script, which is safe, as nothing was executed.
func (c *Conn) one(ctx context.Context, call *redishold.Call) redishold.Result {
	r := result(ctx, c.client.Do(undated{ctx}, c.eval(call)))
	if adapter.NoScript(r.Err) {
		again := *call
		again.Source = true
		r = result(ctx, c.client.Do(undated{ctx}, c.eval(&again)))
	}
	c.notice(ctx, r.Err)
	return r
}

func (c *Conn) many(ctx context.Context, calls []redishold.Call) []redishold.Result {
	results := adapter.Complete(calls, func(calls []redishold.Call) []redishold.Result { return c.send(ctx, calls) })
	c.notice(ctx, results[0].Err)
	return results
}

// send sends calls in one pipeline. A cluster has no pipeline that keeps a
// script and its WAIT together, except on a dedicated connection, which serves
// one slot.
func (c *Conn) send(ctx context.Context, calls []redishold.Call) []redishold.Result {
	if c.client.Mode() == rueidis.ClientModeCluster {
		return c.sendCluster(ctx, calls)
	}
	return c.pipeline(ctx, c.client.DoMulti, calls)
}

func (c *Conn) sendCluster(ctx context.Context, calls []redishold.Call) []redishold.Result {
	results := make([]redishold.Result, len(calls))
	var plain []redishold.Call
	var at []int
	for i, call := range calls {
		if call.Replicas == 0 {
			plain, at = append(plain, call), append(at, i)
			continue
		}
		node, release := c.client.Dedicate()
		results[i] = c.pipeline(ctx, node.DoMulti, calls[i:i+1])[0]
		release()
	}
	if len(plain) > 0 {
		for i, r := range c.pipeline(ctx, c.client.DoMulti, plain) {
			results[at[i]] = r
		}
	}
	return results
}

type doMulti func(context.Context, ...rueidis.Completed) []rueidis.RedisResult

// pipeline sends calls together, each WAIT right behind its script. rueidis
// sends a pipeline that has a WAIT over one connection from its pool.
func (c *Conn) pipeline(ctx context.Context, do doMulti, calls []redishold.Call) []redishold.Result {
	commands := make(rueidis.Commands, 0, 2*len(calls))
	for i := range calls {
		commands = append(commands, c.eval(&calls[i]))
		if n := calls[i].Replicas; n > 0 {
			wait := c.client.B().Wait().Numreplicas(int64(n)).Timeout(adapter.WaitMillis(ctx)).Build()
			commands = append(commands, wait)
		}
	}
	answers := do(undated{ctx}, commands...)
	results := make([]redishold.Result, len(calls))
	for i := range calls {
		results[i] = result(ctx, answers[0])
		answers = answers[1:]
		if n := calls[i].Replicas; n > 0 {
			results[i] = adapter.Acknowledged(results[i], result(ctx, answers[0]), n)
			answers = answers[1:]
		}
	}
	return results
}

// eval builds the command of a call. Only the first key tells a cluster client
// where to go: it panics where keys are in different slots, whereas the server
// explains.
func (c *Conn) eval(call *redishold.Call) rueidis.Completed {
	verb, script := "EVALSHA", call.Script.SHA()
	if call.Source {
		verb, script = "EVAL", call.Script.Source()
	}
	cmd := c.client.B().Arbitrary(verb, script, strconv.Itoa(len(call.Keys)))
	if len(call.Keys) > 0 {
		cmd = cmd.Keys(call.Keys[0]).Args(call.Keys[1:]...)
	}
	return cmd.Args(call.Args...).Build()
}

// result translates an answer of rueidis.
func result(ctx context.Context, answer rueidis.RedisResult) redishold.Result {
	v, err := answer.ToAny()
	switch _, isReply := rueidis.IsRedisErr(err); {
	case err == nil:
		v, err = adapter.Value(v)
		return redishold.Result{Value: v, Err: err}
	case rueidis.IsRedisNil(err):
		return redishold.Result{}
	case isReply:
		return redishold.Result{Err: replyError(answer)}
	default:
		return redishold.Result{Err: adapter.Classify(ctx, err, unsent(err))}
	}
}

// replyError returns what the server said. rueidis' own error leaves out the
// code ERR.
func replyError(answer rueidis.RedisResult) *redishold.ReplyError {
	msg, _ := answer.ToMessage()
	text, _ := msg.ToString()
	return &redishold.ReplyError{Text: text}
}

// unsent reports whether err proves that a call was not sent.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, new(*dialError))
}

// notice finds out that the user has closed the client. ErrClosing alone does
// not say so, nor that nothing was sent: it is also the answer to a call that was
// under way, and to one whose node has left the cluster. But a client that
// answers so again is closed, and later calls are certain not to be sent.
func (c *Conn) notice(ctx context.Context, err error) {
	if errors.Is(err, rueidis.ErrClosing) {
		ping := c.client.Do(undated{ctx}, c.client.B().Ping().Build())
		if errors.Is(ping.Error(), rueidis.ErrClosing) {
			c.closed.Store(true)
		}
	}
}

// undated hides the deadline of a context, not its end. rueidis answers an early
// end of a context that has a deadline only after that deadline, and gives up
// the connection at a deadline, which would end the calls of others with it.
type undated struct{ context.Context }

// Deadline reports none.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }
