package goredisconn

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// library is go-redis as package adapter uses it.
type library struct {
	adapter.End
	*idle
	client Client
	nodes  *nodes // nil if the client is not for a cluster
}

var _ adapter.Noter = (*library)(nil)

func newLibrary(client Client) *library {
	l := &library{client: client, idle: newIdle(client)}
	l.End = adapter.End{Closed: redis.ErrClosed, Server: l.Ask}
	if _, ring := client.(*redis.Ring); ring {
		l.Because(wire.Refused("a redis.Ring cannot keep locks: its servers know nothing of each other, and a lock moves when one of them fails; use redis.Client, redis.ClusterClient or quorum.Of"))
	}
	if c, ok := client.(cluster); ok {
		l.nodes = newNodes(c)
	}
	return l
}

func (l *library) Send(ctx context.Context, calls []*redishold.Call, results []redishold.Result) {
	if len(calls) == 1 {
		results[0] = process(ctx, l.client, eval(ctx, calls[0]))
		return
	}
	pipe := l.client.Pipeline()
	for _, call := range calls {
		_ = pipe.Process(ctx, once{eval(ctx, call)})
	}
	cmds, err := pipe.Exec(ctx)
	stamp(cmds, err) // otherwise each command has its own error
	for i := range results {
		results[i] = result(ctx, cmds[i].(once).Cmd)
	}
}

// Pipeline sends calls together. In a cluster one call is routed by go-redis. Several
// go to their node, and package adapter follows redirections: go-redis' own cluster
// pipeline leaves a command the error of its first attempt where the second breaks off,
// so that one that may have been executed passes for one that was not.
func (l *library) Pipeline(ctx context.Context, calls []redishold.Call) []redishold.Result {
	switch {
	case l.nodes == nil:
		return run(ctx, l.client.Pipeline(), calls, false)
	case len(calls) == 1:
		return []redishold.Result{process(ctx, l.client, eval(ctx, &calls[0]))}
	}
	home := l.nodes.Homes(ctx, calls[:1])[0]
	return adapter.Follow(ctx, l.nodes, adapter.Destination{Addr: home}, calls)
}

type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

func process(ctx context.Context, server processor, cmd *redis.Cmd) redishold.Result {
	_ = server.Process(ctx, once{cmd}) // cmd has the error as well
	return result(ctx, cmd)
}

// once is a command that go-redis must not repeat.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// run fills pipe with calls, each with ASKING before it if asked to, and executes it.
// One WAIT at its end speaks for all of them: it counts the replicas that have everything which was written on the
// connection before.
func run(ctx context.Context, pipe redis.Pipeliner, calls []redishold.Call, asking bool) []redishold.Result {
	scripts := make([]*redis.Cmd, len(calls))
	replicas := 0
	for i := range calls {
		if asking {
			_ = pipe.Process(ctx, once{redis.NewCmd(ctx, "asking")})
		}
		scripts[i] = eval(ctx, &calls[i])
		_ = pipe.Process(ctx, once{scripts[i]})
		replicas = max(replicas, calls[i].Replicas)
	}
	wait := redis.NewCmd(ctx, "wait", replicas, adapter.WaitMillis(ctx))
	if replicas > 0 {
		_ = pipe.Process(ctx, once{wait})
	}
	stamp(pipe.Exec(ctx)) // each command has its own error
	results := make([]redishold.Result, len(calls))
	for i := range calls {
		results[i] = result(ctx, scripts[i])
	}
	adapter.Acknowledge(calls, results, func() redishold.Result { return result(ctx, wait) })
	return results
}

// stamp gives err to cmds if none of them has one: go-redis keeps from them what
// a server answered to the handshake of a new connection.
func stamp(cmds []redis.Cmder, err error) {
	if err == nil || slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		return
	}
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
}

// eval builds the command of a call. It points to the call's arguments, as a copy of
// each would cost. The keys are strings: go-redis looks at them to find their node.
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
	for i := range call.Args {
		args = append(args, &call.Args[i])
	}
	cmd := command(ctx, args...)
	if len(call.Keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	return cmd
}

// command builds a command that a cluster client routes without a look at what
// COMMAND says of it. It would ask any node for that, once, with all other calls
// waiting; one that hangs would hold up all of them. The step between keys, which
// it wants to know, does not matter for a command that is not split up.
func command(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetStepCount(1)
	return cmd
}

func result(ctx context.Context, cmd *redis.Cmd) redishold.Result {
	switch err := cmd.Err(); {
	case err == nil:
		v, err := adapter.Value(cmd.Val())
		return redishold.Result{Value: v, Err: err}
	case errors.Is(err, redis.Nil):
		return redishold.Result{}
	default:
		return redishold.Result{Err: failure(ctx, err)}
	}
}

func failure(ctx context.Context, err error) error {
	if reply, ok := replyError(err); ok {
		return reply
	}
	return adapter.Classify(ctx, err, unsent(err))
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
