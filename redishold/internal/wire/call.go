// Package wire has what goes to a Redis server and comes back: calls of scripts, their
// answers, and what errors mean.
package wire

import (
	"crypto/sha1" //nolint:gosec // see NewScript
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Call is one script to run.
type Call struct {
	Script   *Script
	Keys     []string
	Args     []string
	Source   bool // send the script's text at once: for calls that cannot afford to learn that the server forgot it
	Replicas int  // how many replicas must acknowledge it, by WAIT on the same connection, right after the calls that are sent with it; 0 for none
}

// Result is the answer to one Call.
type Result struct {
	// Value is what the script returned: nil, int64, string or []any of these.
	Value any

	// Err is nil if the script ran to its end. A *ReplyError is the server's own
	// answer. An error that is driver.ErrNotExecuted is certain: the call did not
	// reach the server. After any other error nothing is known.
	Err error
}

// Pick returns the calls at some places.
func Pick(calls []Call, at []int) []Call {
	picked := make([]Call, len(at))
	for i, j := range at {
		picked[i] = calls[j]
	}
	return picked
}

// Scatter puts the results of calls that Pick returned in their places among all.
func Scatter(results []Result, at []int, some []Result) {
	for i, j := range at {
		results[j] = some[i]
	}
}

// ReplyError is an error that the server answered, as it put it.
type ReplyError struct{ Text string }

// Error returns the server's words.
func (e *ReplyError) Error() string { return e.Text }

// Notice is what a subscription hears.
type Notice struct {
	Subscribed bool   // the server (again) confirmed the subscription: messages before it may be lost
	Payload    string // otherwise a message
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

// Evicts reports that a server may drop keys to free memory.
func Evicts(i ServerInfo) bool {
	return i.EvictionPolicy != "" && i.EvictionPolicy != "noeviction"
}

// PublishWith returns the commands that wake waiters.
func PublishWith(i ServerInfo) []string { return []string{"PUBLISH", "SPUBLISH"}[:Publishing(i)] }

// Publishing is how many commands it takes to wake waiters. In a cluster that knows
// sharded channels, Redisson clients may listen on either kind.
func Publishing(i ServerInfo) int {
	if i.Cluster && i.ShardedPS {
		return 2
	}
	return 1
}

// TooOld reports that a server is older than Redis 6.2. A version that it does
// not tell, or that cannot be read, is taken on trust.
func TooOld(i ServerInfo) bool {
	var major, minor int
	_, err := fmt.Sscanf(i.Version, "%d.%d", &major, &minor)
	return err == nil && (major < 6 || major == 6 && minor < 2)
}

// Listening is how PUBSUB counts who listens, "" if it cannot. In a cluster a
// node knows its own clients only, and those of a sharded channel are all its own.
func Listening(i ServerInfo) string {
	switch {
	case !i.Cluster:
		return "NUMSUB"
	case i.ShardedPS:
		return "SHARDNUMSUB"
	default:
		return ""
	}
}

// Script is a Lua script, read from a file of package redishold.
type Script struct{ name, source, sha string }

// NewScript returns a script.
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

// MS is a duration as an argument of a script: in milliseconds, rounded up. A lease must
// not end early, and a TTL of 0 would delete the key.
func MS(d time.Duration) string {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(max(1, ms), 10)
}

// Count is a number of at least 1 as an argument of a script.
func Count(n int) string { return strconv.Itoa(max(1, n)) }
