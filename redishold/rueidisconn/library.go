package rueidisconn

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// library is the adapter.Client over a client of rueidis.
type library struct {
	adapter.End
	client      rueidis.Client
	nodes       *nodes    // nil if the client is not for a cluster
	commandPool sync.Pool // of *[]rueidis.Completed
	shared      replies   // over the connection that all calls share
	pool        replies   // over connections of the pool, to calls in the goroutines of their callers
	inline      *inline   // nil if calls do not run in the goroutines of their callers

	neverDone *neverDone
}

func newLibrary(client rueidis.Client) *library {
	l := &library{client: client, neverDone: &neverDone{context.Background(), make(chan struct{})}}
	l.commandPool.New = func() any { return new([]rueidis.Completed) }
	l.End = adapter.End{Closed: rueidis.ErrClosing, Server: l.Ask}
	if client.Mode() == rueidis.ClientModeCluster {
		l.nodes = newNodes(l)
	}
	return l
}

// Master implements adapter.Switcher. It returns the address of the master that the Sentinels
// have named, and "" for clients without Sentinels.
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

// Send implements adapter.Client. For the connection that all calls share, it does not pass ctx
// to rueidis: the end of ctx would not stop a command that was sent, but could end the making of
// a connection for which other calls wait, too. While the shared connection is silent, Send uses
// a connection of the pool.
func (l *library) Send(ctx context.Context, node adapter.Destination, calls []*redishold.Call, results []redishold.Result) {
	switch {
	case l.nodes != nil:
		l.nodes.send(ctx, node, calls, results)
	case slices.ContainsFunc(calls, waits):
		l.run(ctx, l.client.DoMulti, calls, results, false)
	case l.shared.silent():
		l.sendPooled(ctx, calls, results)
	case len(calls) == 1:
		results[0] = l.do(l.neverDone, &l.shared, l.eval(calls[0], false).ToPipe())
	default:
		l.shared.begin()
		replied := false // also if rueidis panics
		defer func() { l.shared.end(replied) }()
		replied = l.run(l.neverDone, l.client.DoMulti, calls, results, false)
	}
}

// waits reports whether a call needs a WAIT.
func waits(call *redishold.Call) bool { return call.Replicas > 0 }

type doMulti func(context.Context, ...rueidis.Completed) []rueidis.RedisResult

// run sends calls in one pipeline, and reports whether all of them got a reply. If `asking` is
// true, an ASKING comes before each call. rueidis sends a pipeline with a WAIT over one
// connection from its pool.
func (l *library) run(ctx context.Context, do doMulti, calls []*redishold.Call, results []redishold.Result, asking bool) (replied bool) {
	commands := l.commandPool.Get().(*[]rueidis.Completed)
	replicas, each := 0, 1 // the number of commands for each call
	for _, call := range calls {
		replicas = max(replicas, call.Replicas)
	}
	for _, call := range calls {
		if asking {
			*commands = append(*commands, l.client.B().Asking().Build())
			each = 2
		}
		cmd := l.eval(call, false)
		if replicas == 0 { // otherwise the WAIT would delay other calls
			cmd = cmd.ToPipe()
		}
		*commands = append(*commands, cmd)
	}
	if replicas > 0 {
		wait := l.client.B().Wait().Numreplicas(int64(replicas)).Timeout(adapter.WaitMillis(ctx)).Build()
		*commands = append(*commands, wait)
	}
	answers := do(withoutDeadline{ctx}, *commands...)
	for i := range calls {
		results[i] = result(ctx, answers[i*each+each-1])
	}
	adapter.Acknowledge(calls, results, func() redishold.Result { return result(ctx, answers[len(answers)-1]) })
	lost := func(answer rueidis.RedisResult) bool { return answer.NonRedisError() != nil }
	if slices.ContainsFunc(answers, lost) { // rueidis may still write the commands
		return false
	}
	clear(*commands)
	*commands = (*commands)[:0]
	l.commandPool.Put(commands)
	return true
}

// eval returns the command of a call. With ToPipe, the command uses the connection that all calls
// share. Otherwise, if Open has made the client, the command uses a connection of the pool. If
// `blocking` is true, it does so with every client. rueidis learns only of the first key that it
// is a key: a cluster client would panic if keys are in different slots, whereas the server
// returns an error that explains the problem.
func (l *library) eval(call *redishold.Call, blocking bool) rueidis.Completed {
	verb, script := "EVALSHA", call.Script.SHA()
	if call.Source {
		verb, script = "EVAL", call.Script.Source()
	}
	cmd := l.client.B().Arbitrary(verb, script, strconv.Itoa(len(call.Keys)))
	if len(call.Keys) > 0 {
		cmd = cmd.Keys(call.Keys[0]).Args(call.Keys[1:]...)
	}
	cmd = cmd.Args(call.Args...)
	if blocking {
		return cmd.Blocking()
	}
	return cmd.Build()
}

func result(ctx context.Context, answer rueidis.RedisResult) redishold.Result {
	v, err := answer.ToAny()
	if err == nil {
		v, err = adapter.Value(v)
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

// replyError returns the error reply of the server. The error of rueidis leaves out the code
// ERR, so replyError takes the text from `answer`. The reply to the handshake of a connection
// is not in `answer`: for such a reply, replyError takes the text of the error of rueidis.
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
	return errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, driver.ErrNotExecuted)
}

// withoutDeadline hides the deadline of a context, but not its end. If a context with a
// deadline ends early, rueidis returns only at the deadline. And at a deadline rueidis closes
// the connection, which would end the calls of others.
type withoutDeadline struct{ context.Context }

func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// neverDone is a context that never ends, but has a Done channel. With a nil Done, rueidis
// reads from the connection only while it waits for a reply. Then it notices the end of an
// idle connection only at the next call, which is lost.
type neverDone struct {
	context.Context
	never chan struct{}
}

func (e *neverDone) Done() <-chan struct{} { return e.never }
