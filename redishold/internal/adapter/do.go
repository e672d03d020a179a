package adapter

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Client is a client library as a Conn uses it. Its methods may block for longer than
// their context, and never repeat what may have been executed.
type Client interface {
	// Send is what a Combiner needs; it is called only where there is one server.
	Sender

	// Pipeline runs calls in one pipeline, wherever their keys live. In a cluster
	// it is given only calls that ask for no replicas, and follows redirections.
	Pipeline(ctx context.Context, calls []redishold.Call) []redishold.Result

	// Ask is the Question to a server, any one where there are several.
	Ask(ctx context.Context, command ...string) redishold.Result

	// Servers returns how to ask each server that is known, by its address.
	Servers(ctx context.Context) (map[string]Question, error)

	// Refuse and Notice are those of End.
	Refuse() error
	Notice(ctx context.Context, results []redishold.Result)
}

// Question sends a command to a server and returns what that answers, which may be a
// map.
type Question = func(ctx context.Context, command ...string) redishold.Result

// Noter is a Client that wants to know what callers of Do and DoOne are notified.
type Noter interface {
	// Noted is called with the results, unless there is one and that is no error. It may
	// add to the texts of errors.
	Noted(results []redishold.Result)
}

// Cluster is what a Conn needs beyond that where keys live on several nodes.
type Cluster interface {
	Topology
	Masters

	// At runs calls in one pipeline over one connection to a node, with WAIT behind
	// them. It follows no redirection.
	At(ctx context.Context, node Destination, calls []redishold.Call) []redishold.Result
}

// Destination says where to send calls.
type Destination struct {
	Addr       string // "" where nobody knows: the library finds it by the key
	Redirected bool   // a node named it in a redirection; otherwise it is what Homes said
	Asking     bool   // the slot is still on its way there, and each call needs ASKING before it
}

// doubtful reports whether err is what the former master of a slot leaves one
// with: no answer, or one that only a master need not give.
func doubtful(err error) bool {
	switch code(err) {
	case "":
		return err != nil
	case "MOVED", "READONLY", "MASTERDOWN", "CLUSTERDOWN":
		return true
	}
	return false
}

// complete sends calls together, and once more, as source, those whose script the
// server does not know. That is safe, as nothing was executed of them.
func complete(ctx context.Context, calls []redishold.Call, send send) []redishold.Result {
	results := send(ctx, calls)
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
		wire.Scatter(results, at, send(ctx, again))
	}
	return results
}
