// Package wire has types for calls of scripts and for their results. It also reads the elements
// of replies, and finds out what error replies mean.
package wire

import (
	"crypto/sha1" //nolint:gosec // see NewScript
	"encoding/hex"
	"strconv"
	"time"
)

// Call has the fields of redishold.Call, for the packages that redishold imports. The two types
// can be converted into each other.
type Call struct {
	Script   *Script
	Keys     []string
	Args     []string
	Source   bool
	Replicas int
}

// Result has the fields of redishold.Result. The two types can be converted into each other.
type Result struct {
	Value any
	Err   error
}

// Pick returns the elements of the slice `all` with the indices `at`.
func Pick[T any](all []T, at []int) []T {
	picked := make([]T, len(at))
	for i, j := range at {
		picked[i] = all[j]
	}
	return picked
}

// Scatter sets results[at[i]] to some[i], for each i. It is the inverse of Pick.
func Scatter[T any](results []T, at []int, some []T) {
	for i, j := range at {
		results[j] = some[i]
	}
}

// ReplyError is an error reply of the server.
type ReplyError struct{ Text string }

// Error returns the text of the reply.
func (e *ReplyError) Error() string { return e.Text }

// Notice is an event of a subscription: a message, or a confirmation by the server.
type Notice struct {
	Subscribed bool   // the server has confirmed the subscription, perhaps again: earlier messages may be lost
	Payload    string // the message, if Subscribed is false
}

// Server has those properties of a server that calls of scripts depend on.
type Server struct {
	Cluster   bool // the server is a node of a Redis Cluster
	ShardedPS bool // the server supports SSUBSCRIBE and SPUBLISH
}

// PublishWith returns the publish commands for the server.
func (s Server) PublishWith() []string { return []string{"PUBLISH", "SPUBLISH"}[:s.Publishing()] }

// Publishing returns the number of publish commands for the server. In a cluster with sharded
// channels there are two, because Redisson clients may listen on either kind of channel.
func (s Server) Publishing() int {
	if s.Cluster && s.ShardedPS {
		return 2
	}
	return 1
}

// Listening returns the subcommand of PUBSUB that counts all listeners on a channel, or "" if
// there is none. A node of a cluster counts only its own clients. For a sharded channel this
// count has all listeners, because all listeners on that channel are clients of one node.
func (s Server) Listening() string {
	switch {
	case !s.Cluster:
		return "NUMSUB"
	case s.ShardedPS:
		return "SHARDNUMSUB"
	default:
		return ""
	}
}

// Script is a Lua script, with its name and its digest.
type Script struct{ name, source, sha string }

// NewScript returns a script.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // EVALSHA identifies scripts by SHA-1; it is not for security
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// Name returns the name of the script's file without its ending.
func (s *Script) Name() string { return s.name }

// Source returns the script's text, for EVAL.
func (s *Script) Source() string { return s.source }

// SHA returns the digest of the script for EVALSHA, in lower-case hex.
func (s *Script) SHA() string { return s.sha }

// MS returns a duration as an argument of a script, in milliseconds. It rounds up, because a
// lease must not end early. It returns at least 1, because a TTL of 0 would delete the key.
func MS(d time.Duration) string {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(max(1, ms), 10)
}

// Count returns n as an argument of a script, at least 1.
func Count(n int) string { return strconv.Itoa(max(1, n)) }
