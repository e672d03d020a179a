package goredisconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// library is go-redis as package adapter uses it.
type library struct {
	client Client
	nodes  *nodes      // nil if the client is not for a cluster
	closed atomic.Bool // the client is closed: nothing is sent any more
}

var _ adapter.Client = (*library)(nil)

func newLibrary(client Client) *library {
	l := &library{client: client}
	if c, ok := client.(cluster); ok {
		l.nodes = &nodes{client: c}
	}
	return l
}

// Cluster returns nil unless the client is for a cluster.
func (l *library) Cluster() adapter.Cluster {
	if l.nodes == nil {
		return nil
	}
	return l.nodes
}

// One sends one command, which a cluster client routes by itself.
func (l *library) One(ctx context.Context, call *redishold.Call) redishold.Result {
	cmd := eval(ctx, call)
	l.notice(ctx, l.client.Process(ctx, once{cmd})) // cmd has the error as well
	return result(ctx, cmd)
}

// Send sends calls together.
func (l *library) Send(ctx context.Context, calls []*redishold.Call, results []redishold.Result) {
	if len(calls) == 1 {
		cmd := evalInPlace(ctx, calls[0])
		l.notice(ctx, l.client.Process(ctx, once{cmd})) // cmd has the error as well
		results[0] = result(ctx, cmd)
		return
	}
	pipe := l.client.Pipeline()
	for _, call := range calls {
		_ = pipe.Process(ctx, once{evalInPlace(ctx, call)})
	}
	cmds, err := pipe.Exec(ctx)
	l.notice(ctx, err)
	stamp(cmds, err) // otherwise each command has its own error
	for i := range results {
		results[i] = result(ctx, cmds[i].(once).Cmd)
	}
}

// Pipeline sends calls together. In a cluster they go to their node, and package
// adapter follows redirections: go-redis' own cluster pipeline leaves a command
// the error of its first attempt where the second breaks off, so that one that
// may have been executed passes for one that was not.
func (l *library) Pipeline(ctx context.Context, calls []redishold.Call) []redishold.Result {
	if l.nodes == nil {
		return run(ctx, l.client.Pipeline(), calls)
	}
	home := l.nodes.Homes(ctx, calls[:1])[0]
	return adapter.Follow(ctx, l.nodes, adapter.Destination{Addr: home}, calls)
}

// once is a command that go-redis must not repeat.
type once struct{ *redis.Cmd }

// NoRetry tells go-redis so.
func (once) NoRetry() bool { return true }

// run fills pipe with calls and executes it. One WAIT at its end speaks for all
// of them: it counts the replicas that have everything which was written on the
// connection before.
func run(ctx context.Context, pipe redis.Pipeliner, calls []redishold.Call) []redishold.Result {
	scripts := make([]*redis.Cmd, len(calls))
	replicas := 0
	for i := range calls {
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
		if n := calls[i].Replicas; n > 0 {
			results[i] = adapter.Acknowledged(results[i], result(ctx, wait), n)
		}
	}
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

// eval builds the command of a call.
func eval(ctx context.Context, call *redishold.Call) *redis.Cmd {
	args := begin(call)
	for _, arg := range call.Args {
		args = append(args, arg)
	}
	return evalOf(ctx, call, args)
}

// evalInPlace is eval without a copy of each argument: the command points to
// those of the call.
func evalInPlace(ctx context.Context, call *redishold.Call) *redis.Cmd {
	args := begin(call)
	for i := range call.Args {
		args = append(args, &call.Args[i])
	}
	return evalOf(ctx, call, args)
}

// begin returns the command up to its arguments. The keys are strings, as go-redis
// looks at them to find their node.
func begin(call *redishold.Call) []any {
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	if call.Source {
		args = append(args, "eval", call.Script.Source(), len(call.Keys))
	} else {
		args = append(args, "evalsha", call.Script.SHA(), len(call.Keys))
	}
	for _, key := range call.Keys {
		args = append(args, key)
	}
	return args
}

func evalOf(ctx context.Context, call *redishold.Call, args []any) *redis.Cmd {
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

// result translates the outcome of a command.
func result(ctx context.Context, cmd *redis.Cmd) redishold.Result {
	err := cmd.Err()
	if err == nil {
		v, err := adapter.Value(cmd.Val())
		return redishold.Result{Value: v, Err: err}
	}
	switch reply, isReply := replyError(err); {
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

// notice finds out that the user has closed the client. ErrClosed alone does not say
// so: it is also the answer of a connection pool that was closed because its node has
// left the cluster, or is no longer the master. But a client that answers so to the
// next command as well is closed.
func (l *library) notice(ctx context.Context, err error) {
	if !errors.Is(err, redis.ErrClosed) {
		return
	}
	answer, guarded := adapter.Guard(ctx, func() error {
		return l.client.Process(ctx, once{command(ctx, "ping")})
	})
	if guarded == nil && errors.Is(answer, redis.ErrClosed) {
		l.closed.Store(true)
	}
}
