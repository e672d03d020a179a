package redishold

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Conn is the interface to a Redis client. This interface is small, so that an adapter for any
// client library can implement it. Packages rueidisconn and goredisconn are such adapters.
//
// A Conn never repeats a call whose outcome is unknown. The scripts are safe to repeat, and the
// Backend decides when to repeat a call.
type Conn interface {
	// Do runs each of `calls` at most once, in one pipeline for each node. It returns one
	// Result for each call, in the order of `calls`. When ctx ends, Do returns at once, also
	// while the server or the client library hangs. The Results without an answer then have
	// ctx's error.
	//
	// The server's answer to a call is a value or a *ReplyError. When Do has returned this
	// answer, the caller may reuse the slices of the call. After any other error the Conn may
	// still read the Keys and Args of the call.
	Do(ctx context.Context, calls ...Call) []Result

	// Subscribe subscribes to ch, and returns when the server has confirmed the subscription.
	// All subscriptions of one kind share one connection for each node. The goroutine that reads
	// this connection calls `notify`, so `notify` must not block. The calls of `notify` have the
	// order in which the server sent the messages. Each message is a Notice with a Payload.
	// Each confirmation of the subscription is a Notice with Subscribed. The Notice for the
	// first confirmation comes before Subscribe returns, or shortly after. Another such Notice
	// comes each time the Conn has restored a broken connection. The Conn restores the
	// connection as long as there are subscriptions.
	Subscribe(ctx context.Context, ch Channel, notify func(Notice)) (Subscription, error)

	// Server reads the version and the settings of the server. A field that the server
	// does not report, for example because a permission is missing, is zero.
	Server(ctx context.Context) (ServerInfo, error)
}

// Single is a Conn that runs one call without allocating slices.
type Single interface {
	// DoOne does the same as Do, for one call. The rules of Do for the slices of a call are also
	// the rules of DoOne.
	DoOne(ctx context.Context, call *Call) Result
}

// Beginner is a Conn that can send a call, and wait for its answer later.
type Beginner interface {
	// Begin sends `call`, as far as it can without waiting. If the client library keeps the order
	// of calls, the calls to one node arrive there in the order in which Begin sent them. The
	// function `finish` waits for the answer, as Do does; the caller must call it exactly once.
	// When `finish` has returned an answer of the server, the caller may reuse the slices of
	// `call`. After any other error the Conn may still read these slices.
	Begin(ctx context.Context, call *Call) (finish func() Result)
}

// ListenerCounter is a Conn that counts its own subscriptions. The server counts the connections
// that receive a message, but the Lockers that share a Conn share one connection. Without this
// interface, such Lockers do not know of each other, and one may get the lock much less often
// than another. A Conn that wraps another one should pass Listeners on.
type ListenerCounter interface {
	// Listeners returns how many subscriptions to ch are open and confirmed by the server. A
	// Backend calls it for each release, so it must not wait for the network.
	Listeners(ch Channel) int
}

// Adviser is a Conn that knows the settings of its client.
type Adviser interface {
	// Advice returns the settings of the client that are bad for locks. A Backend
	// logs them at its first use, and package doctor reports them.
	Advice() []Advice
}

// Advice is a client setting that makes locks unreachable for longer than necessary.
type Advice struct {
	Setting string // the name in the client library, such as "FailoverOptions.MaxRetries"
	Is      string // the current value, such as "3"
	Better  string // a value that is good for locks, such as "-1"
	Why     string // the reason, as a sentence
}

// Channel names a pub/sub channel. In a cluster, a Conn subscribes at the node that has the slot
// of Name, also to a classic channel: every node sends the messages of that channel to its
// subscribers, but the reply to a PUBLISH counts only the receivers at the node that executes
// the PUBLISH.
type Channel struct {
	Name    string
	Sharded bool // the channel is a sharded one: SSUBSCRIBE instead of SUBSCRIBE
}

// Subscription is a running subscription.
type Subscription interface {
	// Close ends the subscription. It does not wait for the server. The function `notify` may
	// still be called while Close runs, but not after Close has returned.
	Close()
}

// Call is one script to run.
type Call struct {
	Script *Script
	Keys   []string
	Args   []string

	// Source means that the Conn sends the text of the script at once. Without Source, the Conn
	// first sends only the digest of the script. Then the call needs a second round trip if the
	// server does not know the script.
	Source bool

	// Replicas is the number of replicas that must acknowledge the call; 0 means none. If the
	// Conn sends several calls together, it sends one WAIT for all of them, after these calls
	// and on the same connection.
	Replicas int
}

// Result is the result of one Call.
type Result struct {
	// Value is the reply of the script: nil, int64, string or []any of these.
	Value any

	// Err is nil if the script ran completely. A *ReplyError is an error reply of the server.
	// driver.ErrNotExecuted means that the call did not reach the server. After any other error
	// the result is unknown. If the program has closed the client, and the Conn has noticed
	// that, the error is driver.ErrClosed.
	Err error
}

// ServerInfo describes a server. A field is zero if its value is unknown.
type ServerInfo struct {
	Version   string        // such as "7.0.15"; for Valkey, the version of Redis with which it is compatible
	RunID     string        // the run id, which is new after each start of the server
	Uptime    time.Duration // the time since the last start of the server, by the wall clock of the server, in whole seconds
	Cluster   bool          // the server is a node of a Redis Cluster
	ShardedPS bool          // the server supports SSUBSCRIBE and SPUBLISH
	Role      string        // "master" or "slave"
	Replicas  int           // the number of connected replicas

	EvictionPolicy string // the setting maxmemory-policy
	EvictedKeys    int64  // the number of keys evicted since the last start of the server
}

// These types are also a part of the interface of a Conn.
type (
	// Notice is an event of a subscription. If Subscribed is true, the server has confirmed the
	// subscription, and earlier messages may be lost. If Subscribed is false, the Notice is a
	// message, and Payload is its text.
	Notice = wire.Notice

	// ReplyError is an error reply of the server, with its Text.
	ReplyError = wire.ReplyError

	// Script is a Lua script. Its method Name returns the name of its file without the ending,
	// Source returns its text for EVAL, and SHA returns its digest for EVALSHA, in lower-case
	// hex.
	Script = wire.Script
)

// NewScript returns a Script with the given name and source text. Authors of a Conn need
// it for tests with their own scripts.
func NewScript(name, source string) *Script { return wire.NewScript(name, source) }
