// Package wire has what goes to a Redis server and comes back: calls of scripts, their
// answers, and what errors mean.
package wire

import (
	"crypto/sha1" //nolint:gosec // see NewScript
	"encoding/hex"
	"strconv"
	"time"
)

// Call is what redishold.Call is, for the packages that redishold imports. A conversion
// makes one of the other.
type Call struct {
	Script   *Script
	Keys     []string
	Args     []string
	Source   bool
	Replicas int
}

// Result is what redishold.Result is, as Call is redishold.Call.
type Result struct {
	Value any
	Err   error
}

// Pick returns the elements at some places, of calls for example.
func Pick[T any](all []T, at []int) []T {
	picked := make([]T, len(at))
	for i, j := range at {
		picked[i] = all[j]
	}
	return picked
}

// Scatter puts the results of what Pick returned in their places among all.
func Scatter[T any](results []T, at []int, some []T) {
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

// Server is what the calls to a server depend on.
type Server struct {
	Cluster   bool // a node of a Redis Cluster
	ShardedPS bool // it supports SSUBSCRIBE and SPUBLISH
}

// PublishWith returns the commands that wake waiters.
func (s Server) PublishWith() []string { return []string{"PUBLISH", "SPUBLISH"}[:s.Publishing()] }

// Publishing is how many commands it takes to wake waiters. In a cluster with sharded
// channels, Redisson clients may listen on either kind.
func (s Server) Publishing() int {
	if s.Cluster && s.ShardedPS {
		return 2
	}
	return 1
}

// Listening returns the subcommand of PUBSUB that counts listeners, "" if there is none.
// In a cluster a node knows only its own clients, and the clients of a sharded channel are
// all its own.
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
