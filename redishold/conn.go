package redishold

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Conn is what the engine needs of a Redis client. It is small so that any
// client can serve; packages rueidisconn and goredisconn are two of them.
//
// A Conn never repeats a call whose outcome is unknown: the scripts are safe to
// repeat, and the layer above decides when.
type Conn interface {
	// Do runs calls, pipelined per node, each at most once, and returns one
	// Result per call in the same order. It returns promptly when ctx ends, even
	// while the server or the client library hangs; calls without an answer then
	// carry an error that is ctx's error.
	//
	// It keeps nothing of a call, its slices included, once it has returned the
	// server's answer to it, a value or a *ReplyError: the caller may use them
	// again. After any other error it may go on to read the slices Keys and Args.
	Do(ctx context.Context, calls ...Call) []Result

	// Subscribe starts to listen on ch and returns when the server has confirmed
	// it. All subscriptions share one connection per node. notify is called from
	// the connection's reading goroutine, in order, and must not block: once with
	// Notice.Subscribed for every confirmation of the subscription, the first one
	// (before or shortly after Subscribe returns) and each one after a broken
	// connection, and once for every message. The Conn restores a broken
	// connection by itself for as long as there are subscriptions.
	Subscribe(ctx context.Context, ch Channel, notify func(Notice)) (Subscription, error)

	// Server asks the server what it is. What the server will not tell, for want
	// of rights or because it does not know the question, is left zero.
	Server(ctx context.Context) (ServerInfo, error)
}

// Single is a Conn that runs one call without slices.
type Single interface {
	// DoOne is Do for one call. It keeps nothing of call once it has returned the
	// server's answer; after any other error it may go on to read it.
	DoOne(ctx context.Context, call *Call) Result
}

// Beginner is a Conn that can send a call and let the caller wait for its answer
// later.
type Beginner interface {
	// Begin puts call on its way, as far as it can without waiting: a call for the
	// same node that is begun or done after Begin has returned arrives later, where
	// the client can have it so. finish waits for the answer as Do does; it must be
	// called, and only once. Nothing of call is kept once finish has returned the
	// server's answer; after any other error it may still be read.
	Begin(ctx context.Context, call *Call) (finish func() Result)
}

// Adviser is a Conn that knows how its client is set up.
type Adviser interface {
	// Advice returns the settings of the client that are bad for locks. A Backend
	// logs them at its first use, and package doctor reports them.
	Advice() []Advice
}

// Advice is a setting of a client that keeps locks unreachable for longer than
// they have to be.
type Advice struct {
	Setting string // as the client's library calls it: "FailoverOptions.MaxRetries"
	Is      string // "3"
	Better  string // "-1"
	Why     string // a sentence
}

// Channel names a pub/sub channel.
type Channel struct {
	Name    string
	Sharded bool // SSUBSCRIBE instead of SUBSCRIBE

	// Home asks for a subscription at the node of the slot of Name, where there are
	// several. Each would do, but PUBLISH counts those that it reaches at its own node.
	Home bool
}

// Subscription is a running subscription.
type Subscription interface {
	// Close stops listening. It does not wait for the server; notify may still be
	// called once while Close runs, not after it has returned.
	Close()
}

// What a Conn carries.
type (
	// Call is one script to run, with Keys and Args. With Source the script's text is
	// sent at once: the call cannot afford to learn that the server forgot it. Replicas
	// is how many replicas must acknowledge it, by WAIT on the same connection, right
	// after the calls that are sent with it; 0 for none.
	Call = wire.Call

	// Result is the answer to one Call. Value is what the script returned: nil, int64,
	// string or []any of these. Err is nil if the script ran to its end. A *ReplyError is
	// the server's own answer. An error that is driver.ErrNotExecuted is certain: the call
	// did not reach the server. After any other error nothing is known. Where the program
	// has closed the client, a Conn says so with driver.ErrClosed, as soon as it knows.
	Result = wire.Result

	// Notice is what a subscription hears: Subscribed, the server (again) confirmed it and
	// messages before that may be lost; or a message, its Payload.
	Notice = wire.Notice

	// ReplyError is an error that the server answered, with its Text.
	ReplyError = wire.ReplyError

	// ServerInfo is what a server says of itself: Version ("7.0.15"; of Valkey the Redis
	// version that it is compatible with), RunID (another one after each start), Uptime,
	// Cluster, ShardedPS (it knows SSUBSCRIBE), Role ("master" or "slave"), Replicas
	// (connected ones), EvictionPolicy and EvictedKeys. Zero fields are not known.
	ServerInfo = wire.ServerInfo

	// Script is a Lua script. Its Name is that of the file without the ending, Source is
	// its text for EVAL, SHA the digest for EVALSHA in lower-case hex.
	Script = wire.Script
)

// NewScript returns a script that is not one of the engine's. Authors of a Conn
// need it for their tests.
func NewScript(name, source string) *Script { return wire.NewScript(name, source) }
