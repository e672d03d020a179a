package goredisconn

import (
	"context"
	"errors"
	"net"
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

// Conn is a redishold.Conn over a go-redis client. It may be used by several
// goroutines at once.
type Conn struct {
	client  Client
	refused error // why the client cannot be used at all

	classic, sharded *adapter.Hub
}

var _ redishold.Conn = (*Conn)(nil)

var errRing = errors.New("a redis.Ring cannot keep locks: its servers know nothing of each other, and a lock moves when one of them fails; use redis.Client, redis.ClusterClient or quorum.Of")

// New returns a Conn over a client that the caller owns and closes, after the
// Conn's last use. The Conn itself needs no closing: its connection for
// subscriptions lives as long as there are any.
func New(client Client) *Conn {
	c := &Conn{client: client}
	if _, ring := client.(*redis.Ring); ring {
		c.refused = adapter.NotSent(errRing)
	}
	c.classic = adapter.NewHub(pingAfter, c.link(false))
	c.sharded = adapter.NewHub(pingAfter, c.link(true))
	return c
}

// once is a command that go-redis must not repeat.
type once struct{ *redis.Cmd }

// NoRetry tells go-redis so.
func (once) NoRetry() bool { return true }

// Server asks the server with one INFO. In a cluster it is any one of the nodes.
func (c *Conn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	if err := c.refuse(ctx); err != nil {
		return redishold.ServerInfo{}, err
	}
	r, err := adapter.Guard(ctx, func() redishold.Result {
		cmd := redis.NewCmd(ctx, "info")
		_ = c.client.Process(ctx, once{cmd}) // cmd has the error as well
		return result(ctx, cmd)
	})
	if err != nil {
		return redishold.ServerInfo{}, err
	}
	return adapter.Server(r)
}

// Do runs calls as redishold.Conn says. In a cluster, a call with Call.Replicas
// is not redirected: while its slot moves, the answer is the server's MOVED.
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
	results, err := adapter.Guard(ctx, func() []redishold.Result { return c.many(ctx, calls) })
	if err != nil {
		return adapter.Fail(len(calls), err)
	}
	return results
}

// refuse returns the error of a call that need not be tried.
func (c *Conn) refuse(ctx context.Context) error {
	if c.refused != nil {
		return c.refused
	}
	if err := ctx.Err(); err != nil {
		return adapter.NotSent(err)
	}
	return nil
}

// one runs a single call. It repeats it as EVAL if the server does not know the
// script, which is safe, as nothing was executed.
func (c *Conn) one(ctx context.Context, call *redishold.Call) redishold.Result {
	cmd := eval(ctx, call)
	_ = c.client.Process(ctx, once{cmd}) // cmd has the error as well
	r := result(ctx, cmd)
	if adapter.NoScript(r.Err) {
		again := *call
		again.Source = true
		cmd = eval(ctx, &again)
		_ = c.client.Process(ctx, once{cmd})
		r = result(ctx, cmd)
	}
	return r
}

func (c *Conn) many(ctx context.Context, calls []redishold.Call) []redishold.Result {
	return adapter.Complete(calls, func(calls []redishold.Call) []redishold.Result { return c.send(ctx, calls) })
}

// cluster is what *redis.ClusterClient has beyond Client.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// send sends calls in one pipeline. A cluster client would send WAIT, which has
// no key, to any node, so there a call with a WAIT goes to its own node.
func (c *Conn) send(ctx context.Context, calls []redishold.Call) []redishold.Result {
	nodes, ok := c.client.(cluster)
	if !ok {
		return pipeline(ctx, c.client.Pipeline(), calls)
	}
	results := make([]redishold.Result, len(calls))
	var plain []redishold.Call
	var at []int
	for i, call := range calls {
		if call.Replicas == 0 || len(call.Keys) == 0 {
			plain, at = append(plain, call), append(at, i)
			continue
		}
		node, err := nodes.MasterForKey(ctx, call.Keys[0])
		if err != nil {
			results[i].Err = adapter.Classify(ctx, err, true)
			continue
		}
		results[i] = pipeline(ctx, node.Pipeline(), calls[i:i+1])[0]
	}
	if len(plain) > 0 {
		for i, r := range pipeline(ctx, c.client.Pipeline(), plain) {
			results[at[i]] = r
		}
	}
	return results
}

// pipeline sends calls together, each WAIT right behind its script.
func pipeline(ctx context.Context, pipe redis.Pipeliner, calls []redishold.Call) []redishold.Result {
	scripts := make([]*redis.Cmd, len(calls))
	waits := make([]*redis.Cmd, len(calls))
	for i := range calls {
		scripts[i] = eval(ctx, &calls[i])
		_ = pipe.Process(ctx, once{scripts[i]})
		if n := calls[i].Replicas; n > 0 {
			waits[i] = redis.NewCmd(ctx, "wait", n, adapter.WaitMillis(ctx))
			_ = pipe.Process(ctx, once{waits[i]})
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	results := make([]redishold.Result, len(calls))
	for i := range calls {
		results[i] = result(ctx, scripts[i])
		if n := calls[i].Replicas; n > 0 {
			results[i] = adapter.Acknowledged(results[i], result(ctx, waits[i]), n)
		}
	}
	return results
}

// eval builds the command of a call.
func eval(ctx context.Context, call *redishold.Call) *redis.Cmd {
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	if call.Source {
		args = append(args, "eval", call.Script.Source(), len(call.Keys))
	} else {
		args = append(args, "evalsha", call.Script.SHA(), len(call.Keys))
	}
	for _, key := range call.Keys {
		args = append(args, key)
	}
	for _, arg := range call.Args {
		args = append(args, arg)
	}
	cmd := redis.NewCmd(ctx, args...)
	if len(call.Keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	return cmd
}

// result translates the outcome of a command.
func result(ctx context.Context, cmd *redis.Cmd) redishold.Result {
	err := cmd.Err()
	switch reply, isReply := replyError(err); {
	case err == nil:
		v, err := adapter.Value(cmd.Val())
		return redishold.Result{Value: v, Err: err}
	case errors.Is(err, redis.Nil):
		return redishold.Result{}
	case isReply:
		return redishold.Result{Err: reply}
	default:
		return redishold.Result{Err: adapter.Classify(ctx, err, unsent(err))}
	}
}

// replyError returns what the server said if err is its answer.
func replyError(err error) (*redishold.ReplyError, bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return nil, false
	}
	return &redishold.ReplyError{Text: reply.Error()}, true
}

// unsent reports whether err proves that a command was not sent: no connection
// could be made, or none was free.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}
