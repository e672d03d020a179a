package adapter

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Client is the part of a client library that a Conn uses. Its methods may block even after
// their context has ended. They never repeat a command that may have been executed.
type Client interface {
	Sender

	// Ask is the Question for the server. If there are several servers, it asks any of them.
	Ask(ctx context.Context, command ...string) redishold.Result

	// Servers returns a Question for each known server, by its address.
	Servers(ctx context.Context) (map[string]Question, error)

	// Refuse is End.Refuse. Notice is End.Notice, and may add text to the errors: it gets the
	// results of calls before their callers get them.
	Refuse() error
	Notice(ctx context.Context, results []redishold.Result)
}

// Question sends a command to one server and returns the reply, which may be a map.
type Question = func(ctx context.Context, command ...string) redishold.Result

// Cluster is the part of a client library for a cluster that a Conn uses in addition to
// Client.
type Cluster interface {
	Router
	Masters
}

// Destination is the node to which calls are sent.
type Destination struct {
	Addr   string // the address in a redirection; "" for the node that has the keys of the calls
	Asking bool   // the slot is still migrating to the node, and each call needs an ASKING before it
}

// Key returns the key by which a call is routed, or "" for a call without keys, which may go to
// any node.
func Key(call *redishold.Call) string {
	if len(call.Keys) == 0 {
		return ""
	}
	return call.Keys[0]
}

// suspectsMaster reports whether err is a reason to suspect that the node is not the master
// of the slot any more: there was no reply, or a reply that the master would not give.
func suspectsMaster(err error) bool {
	switch code(err) {
	case "":
		return err != nil
	case "MOVED", "READONLY", "MASTERDOWN", "CLUSTERDOWN":
		return true
	}
	return false
}

// complete sends calls in one pipeline. If the server does not know the script of a call,
// complete sends the call once more, with the source of the script. That is safe, because the
// server has executed nothing of such a call.
func (c *Conn) complete(ctx context.Context, calls []redishold.Call) []redishold.Result {
	results := c.follow(ctx, calls)
	var at []int
	for i := range results {
		if NoScript(results[i].Err) {
			at = append(at, i)
		}
	}
	if len(at) > 0 {
		again := wire.Pick(calls, at)
		for i := range again {
			again[i].Source = true
		}
		wire.Scatter(results, at, c.follow(ctx, again))
	}
	return results
}
