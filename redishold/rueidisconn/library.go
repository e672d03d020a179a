package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// library is rueidis as package adapter uses it.
type library struct {
	adapter.End
	client rueidis.Client
	nodes  *nodes    // nil if the client is not for a cluster
	spare  sync.Pool // of *[]rueidis.Completed
	shared shared

	endless *endless
}

var _ adapter.Switcher = (*library)(nil)

func newLibrary(client rueidis.Client) *library {
	l := &library{client: client, endless: &endless{context.Background(), make(chan struct{})}}
	l.spare.New = func() any { return new([]rueidis.Completed) }
	l.End = adapter.End{Closed: rueidis.ErrClosing, Server: l.Ask}
	if client.Mode() == rueidis.ClientModeCluster {
		l.nodes = newNodes(l)
	}
	return l
}

// Master returns the address of the master that the Sentinels have named, and "" for
// other clients. rueidis leaves a call alone that waits for a connection to the
// former one.
func (l *library) Master() string {
	if l.client.Mode() != rueidis.ClientModeSentinel {
		return ""
	}
	addrs := slices.Collect(maps.Keys(l.client.Nodes()))
	if len(addrs) != 1 { // the client reads from replicas
		return ""
	}
	return addrs[0]
}

// Send sends calls together. It has no use for the context: rueidis would take
// back nothing that was sent, but the making of a connection, for which the calls
// of others wait too. While the connection that all calls share is silent, they are
// sent over one of the pool.
func (l *library) Send(ctx context.Context, calls []*redishold.Call, results []redishold.Result) {
	if l.nodes == nil && l.shared.silent() {
		l.sendApart(ctx, calls, results)
		return
	}
	l.shared.begin()
	defer l.shared.end()
	if len(calls) == 1 {
		results[0] = result(l.endless, l.client.Do(l.endless, l.eval(calls[0])))
		return
	}
	commands := l.spare.Get().(*[]rueidis.Completed)
	for _, call := range calls {
		*commands = append(*commands, l.eval(call))
	}
	done := true
	for i, answer := range l.client.DoMulti(l.endless, *commands...) {
		results[i] = result(l.endless, answer)
		done = done && answer.NonRedisError() == nil
	}
	if done { // otherwise rueidis may still be about to write them
		clear(*commands)
		*commands = (*commands)[:0]
		l.spare.Put(commands)
	}
}

// Pipeline sends calls together. A cluster client routes each command by itself,
// and sends again those that were redirected, and only those.
func (l *library) Pipeline(ctx context.Context, calls []redishold.Call) []redishold.Result {
	if l.nodes != nil {
		if results, ok := l.nodes.divert(ctx, calls); ok {
			return results
		}
		if len(calls) == 1 {
			return []redishold.Result{result(ctx, l.client.Do(undated{ctx}, l.eval(&calls[0])))}
		}
	}
	return l.run(ctx, l.client.DoMulti, calls, false)
}

type doMulti func(context.Context, ...rueidis.Completed) []rueidis.RedisResult

// run sends calls together, each with ASKING before it if asked to. One WAIT at
// the end speaks for all of them: it counts the replicas that have everything
// which was written on the connection before. rueidis sends a pipeline that has a
// WAIT over one connection from its pool.
func (l *library) run(ctx context.Context, do doMulti, calls []redishold.Call, asking bool) []redishold.Result {
	commands := make(rueidis.Commands, 0, 2*len(calls)+1)
	scripts := make([]int, len(calls)) // where each call's script is among the commands
	replicas := 0
	for i := range calls {
		if asking {
			commands = append(commands, l.client.B().Asking().Build())
		}
		scripts[i] = len(commands)
		commands = append(commands, l.eval(&calls[i]))
		replicas = max(replicas, calls[i].Replicas)
	}
	if replicas > 0 {
		wait := l.client.B().Wait().Numreplicas(int64(replicas)).Timeout(adapter.WaitMillis(ctx)).Build()
		commands = append(commands, wait)
	}
	answers := do(undated{ctx}, commands...)
	results := make([]redishold.Result, len(calls))
	for i := range calls {
		results[i] = result(ctx, answers[scripts[i]])
	}
	adapter.Acknowledge(calls, results, func() redishold.Result { return result(ctx, answers[len(answers)-1]) })
	return results
}

// eval builds the command of a call. Only the first key shows a cluster client
// where to go: it panics where keys are in different slots, whereas the server
// explains.
func (l *library) eval(call *redishold.Call) rueidis.Completed { return l.evalOver(call, false) }

// evalOver is eval. apart asks rueidis for a connection of its pool.
func (l *library) evalOver(call *redishold.Call, apart bool) rueidis.Completed {
	verb, script := "EVALSHA", call.Script.SHA()
	if call.Source {
		verb, script = "EVAL", call.Script.Source()
	}
	cmd := l.client.B().Arbitrary(verb, script, strconv.Itoa(len(call.Keys)))
	if len(call.Keys) > 0 {
		cmd = cmd.Keys(call.Keys[0]).Args(call.Keys[1:]...)
	}
	if cmd = cmd.Args(call.Args...); apart {
		return cmd.Blocking()
	}
	return cmd.Build()
}

func result(ctx context.Context, answer rueidis.RedisResult) redishold.Result {
	var v any
	msg, err := answer.ToMessage()
	if err == nil {
		v, err = decode(msg)
	}
	switch reply, isReply := rueidis.IsRedisErr(err); {
	case err == nil:
		return redishold.Result{Value: v}
	case rueidis.IsRedisNil(err):
		return redishold.Result{}
	case isReply:
		return redishold.Result{Err: replyError(answer, reply)}
	default:
		return redishold.Result{Err: adapter.Classify(ctx, err, neverSent(err))}
	}
}

// decode returns what a script answered. ToAny would do, but makes an error of what
// is nil, and of an array one more to be looked through.
func decode(msg rueidis.RedisMessage) (any, error) {
	switch {
	case msg.IsInt64():
		return msg.ToInt64()
	case msg.IsString():
		return msg.ToString()
	case msg.IsNil():
		return nil, nil
	case msg.IsArray():
		elements, err := msg.ToArray()
		if err != nil {
			return nil, err
		}
		values := make([]any, len(elements))
		for i, element := range elements {
			if values[i], err = decode(element); err != nil {
				return nil, fmt.Errorf("script answered with an error inside an array: %w", err)
			}
		}
		return values, nil
	}
	v, err := msg.ToAny()
	if err != nil {
		return nil, err
	}
	return adapter.Value(v)
}

// replyError returns what the server said. rueidis' own error leaves out the
// code ERR, but is all there is of an answer to the handshake of a connection.
func replyError(answer rueidis.RedisResult, reply *rueidis.RedisError) *redishold.ReplyError {
	msg, _ := answer.ToMessage()
	if text, _ := msg.ToString(); text != "" {
		return &redishold.ReplyError{Text: text}
	}
	return &redishold.ReplyError{Text: reply.Error()}
}

// neverSent reports whether err proves that a call was not sent.
func neverSent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, new(*dialError))
}

// undated hides the deadline of a context, not its end. rueidis answers an early
// end of a context that has a deadline only after that deadline, and gives up
// the connection at a deadline, which would end the calls of others with it.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// endless is a context that could end, for all that rueidis knows, and never does.
// With one that cannot, rueidis reads from a connection that carries one call at a
// time only while there is a call: it would notice the end of an idle connection
// by losing the next call.
type endless struct {
	context.Context
	never chan struct{}
}

func (e *endless) Done() <-chan struct{} { return e.never }
