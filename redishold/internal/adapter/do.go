package adapter

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/redishold"
)

// Client is a client library as Do uses it. Its methods may block for longer
// than their context, and never repeat what may have been executed.
type Client interface {
	// Send is what a Combiner needs; it is called only where Cluster returns nil.
	Sender

	// One runs a call that asks for no replicas, wherever its key lives.
	One(ctx context.Context, call *redishold.Call) redishold.Result

	// Pipeline runs calls in one pipeline, wherever their keys live. In a cluster
	// it is given only calls that ask for no replicas, and follows redirections.
	Pipeline(ctx context.Context, calls []redishold.Call) []redishold.Result

	// Cluster returns nil if all keys live on one server.
	Cluster() Cluster
}

// Cluster is what Do needs beyond that where keys live on several nodes.
type Cluster interface {
	// Homes returns for each call the address of the node that it belongs to, as
	// far as the library knows, and "" where it does not know.
	Homes(ctx context.Context, calls []redishold.Call) []string

	// At runs calls in one pipeline over one connection to a node, with WAIT behind
	// them. It follows no redirection.
	At(ctx context.Context, node Destination, calls []redishold.Call) []redishold.Result

	// Doubt says that a node did not answer as its master should: the library had
	// better look again where keys live. It does not block.
	Doubt()

	// Changed returns what is closed when the cluster is found to have other masters,
	// and nil where nobody looks, or where the library ends by itself the calls to a
	// node that is not a master any more. Homes does not block then.
	Changed() <-chan struct{}
}

// Destination says where to send calls.
type Destination struct {
	Addr   string // "" where nobody knows: the library finds it by the key
	Told   bool   // a node named it in a redirection; otherwise it is what Homes said
	Asking bool   // the slot is still on its way there, and each call needs ASKING before it
}

// Do runs calls as redishold.Conn says. In a cluster each node's answers count by
// themselves: a node that stands still costs the calls that it was sent, not the
// others.
func Do(ctx context.Context, c Client, calls []redishold.Call) []redishold.Result {
	cluster := c.Cluster()
	switch {
	case len(calls) == 0:
		return nil
	case len(calls) == 1 && calls[0].Replicas == 0:
		r, err := atMaster(ctx, cluster, calls[:1], func() redishold.Result { return one(ctx, c, &calls[0]) })
		if err != nil {
			r.Err = err
		}
		if cluster != nil && doubtful(r.Err) {
			cluster.Doubt()
		}
		return []redishold.Result{r}
	case cluster != nil:
		return spread(ctx, c, cluster, calls)
	}
	results, err := Guard(ctx, func() []redishold.Result {
		return Complete(calls, func(calls []redishold.Call) []redishold.Result { return c.Pipeline(ctx, calls) })
	})
	if err != nil {
		return Fail(len(calls), err)
	}
	return results
}

// one runs a single call, and once more, as source, if the server does not know
// its script.
func one(ctx context.Context, c Client, call *redishold.Call) redishold.Result {
	r := c.One(ctx, call)
	if NoScript(r.Err) {
		again := *call
		again.Source = true
		r = c.One(ctx, &again)
	}
	return r
}

// doubtful reports whether err is what the former master of a slot leaves one
// with: no answer, or one that only a master need not give.
func doubtful(err error) bool {
	var reply *redishold.ReplyError
	if !errors.As(err, &reply) {
		return err != nil
	}
	code, _, _ := strings.Cut(reply.Text, " ")
	switch code {
	case "MOVED", "READONLY", "MASTERDOWN", "CLUSTERDOWN":
		return true
	}
	return false
}

// Complete sends calls together, and once more, as source, those whose script the
// server does not know. That is safe, as nothing was executed of them.
func Complete(calls []redishold.Call, send func([]redishold.Call) []redishold.Result) []redishold.Result {
	results := send(calls)
	var again []redishold.Call
	var at []int
	for i := range results {
		if NoScript(results[i].Err) {
			again, at = append(again, calls[i]), append(at, i)
			again[len(again)-1].Source = true
		}
	}
	if len(again) > 0 {
		scatter(results, at, send(again))
	}
	return results
}

// pick returns the calls at the given places.
func pick(calls []redishold.Call, at []int) []redishold.Call {
	picked := make([]redishold.Call, len(at))
	for i, j := range at {
		picked[i] = calls[j]
	}
	return picked
}

// scatter puts some into results at the given places.
func scatter(results []redishold.Result, at []int, some []redishold.Result) {
	for i, j := range at {
		results[j] = some[i]
	}
}
