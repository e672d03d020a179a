package doctor

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/redishold"
)

// fakeConn is a Conn that grants all locks. It is also an Asker.
type fakeConn struct {
	servers map[string]Ask
	mute    bool // messages do not arrive

	mu     sync.Mutex
	listen func(redishold.Notice)
}

func (c *fakeConn) Servers(context.Context) (map[string]Ask, error) { return c.servers, nil }

func (c *fakeConn) Server(context.Context) (redishold.ServerInfo, error) {
	return redishold.ServerInfo{Version: "7.0.15", Role: "master", EvictionPolicy: "allkeys-lru"}, nil
}

func (c *fakeConn) Do(_ context.Context, calls ...redishold.Call) []redishold.Result {
	results := make([]redishold.Result, len(calls))
	for i, call := range calls {
		results[i].Value = c.answer(call)
	}
	return results
}

func (c *fakeConn) answer(call redishold.Call) any {
	name := call.Script.Name()
	if name == "latch_count" {
		return []any{int64(1), int64(0)}
	}
	switch name[strings.LastIndexByte(name, '_')+1:] {
	case "acquire", "renew", "register", "release":
		return int64(1)
	case "probe":
		return []any{int64(0)}
	case "count":
		return []any{int64(0), int64(0), int64(0)}
	case "scan":
		return []any{"0", []any{}, int64(-1)}
	case "publish":
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.mute {
			go c.listen(redishold.Notice{Payload: call.Args[2]})
		}
		return int64(1)
	default:
		return ""
	}
}

func (c *fakeConn) Subscribe(_ context.Context, _ redishold.Channel, notify func(redishold.Notice)) (redishold.Subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listen = notify
	return c, nil
}

func (c *fakeConn) Close() {}

// answers is a server or a Sentinel that answers commands, given in a line; what
// it does not know, it refuses.
type answers map[string]any

func (a answers) ask(ctx context.Context, command ...string) redishold.Result {
	if err := ctx.Err(); err != nil {
		return redishold.Result{Err: err}
	}
	switch v := a[strings.Join(command, " ")].(type) {
	case nil:
		return redishold.Result{Err: &redishold.ReplyError{Text: "NOPERM this user has no permissions to run that command"}}
	case error:
		return redishold.Result{Err: v}
	default:
		return redishold.Result{Value: v}
	}
}

var errCut = errors.New("connection reset by peer")

// healthy returns the answers of a server in good order, with changes.
func healthy(info string, changes answers) answers {
	all := answers{
		"INFO": "# Server\r\nredis_version:8.2.2\r\nrun_id:abc\r\nrole:master\r\nconnected_slaves:0\r\n" +
			"maxmemory:0\r\nmaxmemory_policy:noeviction\r\n" +
			"aof_enabled:1\r\nloading:0\r\nlatest_fork_usec:0\r\n" + info,
		"CONFIG GET appendfsync":                []any{"appendfsync", "always"},
		"CONFIG GET client-output-buffer-limit": map[any]any{"client-output-buffer-limit": "normal 0 0 0 pubsub 33554432 8388608 60"},
		"CONFIG GET busy-reply-threshold":       map[string]any{"busy-reply-threshold": "5000"},
		"PUBSUB NUMSUB __sentinel__:hello":      []any{"__sentinel__:hello", int64(0)},
		"SLOWLOG GET 32":                        []any{},
		"PING":                                  "PONG",
	}
	for _, name := range settings() { // known, but not set
		if all["CONFIG GET "+name] == nil {
			all["CONFIG GET "+name] = []any{}
		}
	}
	for command, answer := range changes {
		all[command] = answer
	}
	return all
}
