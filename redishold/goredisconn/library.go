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

// library is the adapter.Client over a client of go-redis.
type library struct {
	adapter.End
	*idle
	client Client
	nodes  *nodes // nil if the client is not for a cluster
	inline bool   // calls may run in the goroutines of their callers
}

func newLibrary(client Client) *library {
	l := &library{client: client, idle: newIdle(client)}
	l.End = adapter.End{Closed: redis.ErrClosed, Server: l.Ask}
	if _, ring := client.(*redis.Ring); ring {
		l.Because(wire.Refused("a redis.Ring cannot keep locks: when one of its servers fails, a lock moves to another server, which does not know the holder; use redis.Client, redis.ClusterClient or quorum.Of"))
	}
	if c, ok := client.(*redis.Client); ok { // otherwise go-redis does not end a call at its deadline
		o := c.Options()
		l.inline = o.ContextTimeoutEnabled && o.ReadTimeout >= 0 && o.WriteTimeout >= 0
	}
	if c, ok := client.(cluster); ok {
		l.nodes = newNodes(c)
	}
	return l
}

// Notice implements adapter.Client.
func (l *library) Notice(ctx context.Context, results []redishold.Result) {
	l.End.Notice(ctx, results)
	l.observe(results)
}

// Send implements adapter.Client. In a cluster, go-redis routes a single call, unless the call
// asks for replicas: WAIT has no key, so a cluster client would send it to any node. Several
// calls go to the client of the node of the first call. The pipeline of a cluster client cannot
// be used for them. If its second attempt breaks off, a command keeps the error of the first
// attempt: then the command seems not executed, although it may have been executed.
func (l *library) Send(ctx context.Context, node adapter.Destination, calls []*redishold.Call, results []redishold.Result) {
	switch {
	case len(calls) == 1 && calls[0].Replicas == 0 && node.Addr == "":
		results[0] = process(ctx, l.client, eval(ctx, calls[0]))
		return
	case l.nodes == nil:
		run(ctx, l.client.Pipeline(), calls, results, false)
		return
	}
	home, err := l.nodes.client.MasterForKey(ctx, adapter.Key(calls[0]))
	if err != nil {
		copy(results, adapter.Fail(len(calls), adapter.Classify(ctx, err, true)))
		return
	}
	if node.Addr != "" {
		home = l.nodes.newNodeClient(home, node.Addr)
		defer home.Close()
	}
	run(ctx, home.Pipeline(), calls, results, node.Asking)
}

func process(ctx context.Context, server Client, cmd *redis.Cmd) redishold.Result {
	_ = server.Process(ctx, noRetry{cmd}) // cmd has the error, too
	return result(ctx, cmd)
}

// noRetry is a command that go-redis must not repeat.
type noRetry struct{ *redis.Cmd }

func (noRetry) NoRetry() bool { return true }

// run fills the pipeline `pipe` with calls, and executes it. If `asking` is true, an ASKING
// comes before each call.
func run(ctx context.Context, pipe redis.Pipeliner, calls []*redishold.Call, results []redishold.Result, asking bool) {
	replicas, each := 0, 1 // the number of commands for each call
	for _, call := range calls {
		if asking {
			_ = pipe.Process(ctx, noRetry{redis.NewCmd(ctx, "asking")})
			each = 2
		}
		_ = pipe.Process(ctx, noRetry{eval(ctx, call)})
		replicas = max(replicas, call.Replicas)
	}
	if replicas > 0 {
		_ = pipe.Process(ctx, noRetry{redis.NewCmd(ctx, "wait", replicas, adapter.WaitMillis(ctx))})
	}
	cmds, err := pipe.Exec(ctx)
	setError(cmds, err) // changes the commands only if none of them has an error of its own
	answer := func(i int) redishold.Result { return result(ctx, cmds[i].(noRetry).Cmd) }
	for i := range calls {
		results[i] = answer(i*each + each - 1)
	}
	adapter.Acknowledge(calls, results, func() redishold.Result { return answer(len(cmds) - 1) })
}

// setError sets err in all cmds if none of them has an error. It is needed if the server
// refuses the handshake of a new connection: go-redis returns that error only from Exec, and
// does not set it in the commands.
func setError(cmds []redis.Cmder, err error) {
	if err == nil || slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		return
	}
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
}

// eval returns the command of a call. The command has pointers to the arguments of the call,
// because copies would allocate. The keys are strings, because go-redis reads them to find the
// node.
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

// command returns a command with a step count, which is the distance between two keys of the
// command. Without a step count, a cluster client would first send COMMAND to some node, to
// learn this distance. All other calls would wait meanwhile, and a node that hangs would delay
// them all. The value of the step count does not matter, because go-redis does not split this
// command.
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

// replyError returns err as a ReplyError if it is an error reply of the server.
func replyError(err error) (*redishold.ReplyError, bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return nil, false
	}
	return &redishold.ReplyError{Text: reply.Error()}, true
}

// unsent reports whether err proves that a command was not sent: because no connection could
// be made, or no connection was free, or the client is closed.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}
