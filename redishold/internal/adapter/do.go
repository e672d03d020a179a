package adapter

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Client is the part of a client library that a Conn uses. Its methods may block even after
// their context has ended. They never repeat a command that may have been executed.
type Client interface {
	// Send runs calls in one pipeline, as Sender describes it, at the server or at a node of the
	// cluster. If a call asks for replicas, one WAIT follows after all calls, over the same
	// connection. Send may follow redirections of calls that ask for no replicas.
	Send(ctx context.Context, node Destination, calls []*redishold.Call, results []redishold.Result)

	// Ask is the Question for the server. If there are several servers, it asks any of them.
	Ask(ctx context.Context, command ...string) redishold.Result

	// Servers returns a Question for each known server, by its address.
	Servers(ctx context.Context) (map[string]Question, error)

	// Refuse and Notice are the methods of End with these names.
	Refuse() error
	Notice(ctx context.Context, results []redishold.Result)
}

// Question sends a command to one server and returns the reply, which may be a map.
type Question = func(ctx context.Context, command ...string) redishold.Result

// Observer is a Client that observes the results of Do and DoOne.
type Observer interface {
	// Observe gets the results before the caller gets them. It gets the result of a call that
	// was combined with others only if the result has an error. Observe may add text to the
	// errors.
	Observe(results []redishold.Result)
}

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
