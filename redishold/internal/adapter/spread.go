package adapter

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// kind is what calls that travel together have in common.
type kind struct {
	home    string
	keyless bool // rueidis panics if calls with and without a key meet
	waits   bool // replicas must acknowledge: over one connection, WAIT behind it
}

// spread runs calls on the nodes of a cluster, side by side. Homes may wait for a
// library that does not honour ctx.
func (c *Conn) spread(ctx context.Context, calls []redishold.Call) []redishold.Result {
	homes, err := Guard(ctx, func() []string { return c.cluster.Homes(ctx, calls) })
	if err != nil {
		return Fail(len(calls), err)
	}
	groups := make(map[kind][]int) // the places of calls; two or three groups for a node
	for i := range calls {
		k := kind{home: homes[i], keyless: len(calls[i].Keys) == 0, waits: calls[i].Replicas > 0}
		groups[k] = append(groups[k], i)
	}
	results := make([]redishold.Result, len(calls))
	var all sync.WaitGroup
	for k, at := range groups {
		send := c.pipeline
		if k.waits {
			send = func(ctx context.Context, calls []redishold.Call) []redishold.Result {
				return Follow(ctx, c.cluster, Destination{Addr: k.home}, calls)
			}
		}
		all.Go(func() { wire.Scatter(results, at, c.atHome(ctx, wire.Pick(calls, at), send)) })
	}
	all.Wait()
	return results
}

// maxRedirects bounds how often a call is sent on. More than two in a row means
// that the nodes do not agree yet.
const maxRedirects = 3

// Follow runs calls at node, and those of which the server says that they belong
// elsewhere, where it says. Nothing was executed of such a call. What is still
// redirected in the end keeps that answer: it was not executed.
func Follow(ctx context.Context, cluster Cluster, node Destination, calls []redishold.Call) []redishold.Result {
	results := cluster.At(ctx, node, calls)
	for range maxRedirects {
		elsewhere := make(map[Destination][]int)
		for i := range results {
			if to, ok := redirection(results[i].Err, node.Addr); ok {
				elsewhere[to] = append(elsewhere[to], i)
			}
		}
		if len(elsewhere) == 0 || ctx.Err() != nil {
			break
		}
		cluster.Suspect()
		for to, at := range elsewhere {
			wire.Scatter(results, at, cluster.At(ctx, to, wire.Pick(calls, at)))
		}
	}
	return results
}

// redirection reads the answers MOVED and ASK: "MOVED 3999 127.0.0.1:6381". A
// server that does not know its own name leaves the host out; it is that of
// asked, which gave the answer.
func redirection(err error, asked string) (to Destination, ok bool) {
	words := strings.Fields(wire.ReplyText(err))
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return Destination{}, false
	}
	host, port := splitAddr(words[2])
	if host == "" {
		host, _ = splitAddr(asked)
	}
	if host == "" || port == "" {
		return Destination{}, false
	}
	return Destination{Addr: net.JoinHostPort(host, port), Redirected: true, Asking: words[0] == "ASK"}, true
}

// splitAddr splits host:port; without a port there is no host either. Redis writes IPv6
// addresses without brackets.
func splitAddr(addr string) (host, port string) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", ""
	}
	return strings.Trim(addr[:i], "[]"), addr[i+1:]
}
