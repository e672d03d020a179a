package redishold

import (
	"context"
	"crypto/sha1" //nolint:gosec // see newScript
	"encoding/hex"
	"time"
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

// Advice is a setting of a client that keeps locks out of reach for longer than
// they have to be.
type Advice struct {
	Setting string // as the client's library calls it: "FailoverOptions.MaxRetries"
	Is      string // "3"
	Better  string // "-1"
	Why     string // a sentence
}

// Call is one script to run.
type Call struct {
	Script   *Script
	Keys     []string
	Args     []string
	Source   bool // send the script's text at once: for calls that cannot afford to learn that the server forgot it
	Replicas int  // how many replicas must acknowledge it, by WAIT on the same connection, right after the calls that are sent with it; 0 for none
}

// Result is the answer to one Call.
//
// Where the program has closed the client, a Conn says so with driver.ErrClosed, as
// soon as it knows: locks are then lost, and nobody waits for an answer.
type Result struct {
	// Value is what the script returned: nil, int64, string or []any of these.
	Value any

	// Err is nil if the script ran to its end. A *ReplyError is the server's own
	// answer. An error that is driver.ErrNotExecuted is certain: the call did not
	// reach the server. After any other error nothing is known.
	Err error
}

// ReplyError is an error that the server answered, as it put it.
type ReplyError struct{ Text string }

// Error returns the server's words.
func (e *ReplyError) Error() string { return e.Text }

// Channel names a pub/sub channel.
type Channel struct {
	Name    string
	Sharded bool // SSUBSCRIBE instead of SUBSCRIBE

	// Home asks for a subscription at the node of the slot of Name, where there are
	// several. Each would do, but PUBLISH counts those that it reaches at its own node.
	Home bool
}

// Notice is what a subscription hears.
type Notice struct {
	Subscribed bool   // the server (again) confirmed the subscription: messages before it may be lost
	Payload    string // otherwise a message
}

// Subscription is a running subscription.
type Subscription interface {
	// Close stops listening. It does not wait for the server; notify may still be
	// called once while Close runs, not after it has returned.
	Close()
}

// ServerInfo is what a server says of itself. Zero fields are not known.
type ServerInfo struct {
	Version   string        // "7.0.15"; of Valkey: the Redis version it is compatible with
	RunID     string        // changes with every start of the server
	Uptime    time.Duration // since that start, by the server's wall clock, in whole seconds
	Cluster   bool          // a node of a Redis Cluster
	ShardedPS bool          // knows SSUBSCRIBE and SPUBLISH
	Role      string        // "master" or "slave"
	Replicas  int           // connected ones

	EvictionPolicy string // maxmemory-policy
	EvictedKeys    int64  // since the server started
}

// Script is a Lua script, read from a file of package redishold.
type Script struct{ name, source, sha string }

// NewScript returns a script that is not one of the engine's. Authors of a Conn
// need it for their tests.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // EVALSHA names scripts by SHA-1; nothing is protected by it
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// Name returns the name of the script's file without its ending.
func (s *Script) Name() string { return s.name }

// Source returns the script's text, for EVAL.
func (s *Script) Source() string { return s.source }

// SHA returns the digest by which EVALSHA names the script, in lower-case hex.
func (s *Script) SHA() string { return s.sha }
