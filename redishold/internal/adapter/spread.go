package adapter

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// kind has the properties that all calls in one pipeline have in common.
type kind struct {
	home    string
	keyless bool // the calls have no key: rueidis panics if a pipeline has calls with a key and calls without one
	waits   bool // replicas must acknowledge the calls: these need one connection, and a WAIT after them
}

// spread runs calls on the nodes of a cluster, at the same time.
func (c *Conn) spread(ctx context.Context, calls []redishold.Call) []redishold.Result {
	// The library may not honour ctx in Home.
	groups, err := Guard(ctx, func() map[kind][]int {
		groups := make(map[kind][]int) // the indices of the calls of each kind
		for i := range calls {
			home := c.cluster.Home(ctx, Key(&calls[i]))
			k := kind{home: home, keyless: len(calls[i].Keys) == 0, waits: calls[i].Replicas > 0}
			groups[k] = append(groups[k], i)
		}
		return groups
	})
	if err != nil {
		return Fail(len(calls), err)
	}
	results := make([]redishold.Result, len(calls))
	var all sync.WaitGroup
	for _, at := range groups {
		all.Go(func() { wire.Scatter(results, at, c.atHome(ctx, wire.Pick(calls, at))) })
	}
	all.Wait()
	return results
}

// maxRedirects is the maximal number of redirections of a call. If a call is redirected more
// than twice in a row, the nodes do not agree yet.
const maxRedirects = 3

// follow runs calls for one node. In a cluster, it sends a redirected call again, to the node
// that the redirection names. That is safe, because the server that redirects a call has
// executed nothing of it. If a call is redirected too often, its Result has the last redirection
// as its error.
func (c *Conn) follow(ctx context.Context, calls []redishold.Call) []redishold.Result {
	results := c.send(ctx, Destination{}, calls)
	for range maxRedirects {
		elsewhere := make(map[Destination][]int)
		for i := range results {
			if to, ok := c.redirection(ctx, &calls[i], results[i].Err); ok {
				elsewhere[to] = append(elsewhere[to], i)
			}
		}
		if len(elsewhere) == 0 || ctx.Err() != nil {
			break
		}
		c.cluster.Suspect()
		for to, at := range elsewhere {
			wire.Scatter(results, at, c.send(ctx, to, wire.Pick(calls, at)))
		}
	}
	return results
}

func (c *Conn) send(ctx context.Context, node Destination, calls []redishold.Call) []redishold.Result {
	pointers, results := make([]*redishold.Call, len(calls)), make([]redishold.Result, len(calls))
	for i := range calls {
		pointers[i] = &calls[i]
	}
	c.client.Send(ctx, node, pointers, results)
	return results
}

// redirection returns the destination in the reply MOVED or ASK to a call, such as "MOVED 3999
// 127.0.0.1:6381". A server that does not know its own name leaves out the host. Then the
// destination has the host of the node to which the call was sent first.
func (c *Conn) redirection(ctx context.Context, call *redishold.Call, err error) (to Destination, ok bool) {
	words := strings.Fields(wire.ReplyText(err))
	if c.cluster == nil || len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return Destination{}, false
	}
	host, port := splitAddr(words[2])
	if host == "" {
		host, _ = splitAddr(c.cluster.Home(ctx, Key(call)))
	}
	if host == "" || port == "" {
		return Destination{}, false
	}
	return Destination{Addr: net.JoinHostPort(host, port), Asking: words[0] == "ASK"}, true
}

// splitAddr splits host:port at the last colon, because Redis writes IPv6 addresses without
// brackets. If there is no port, both results are "".
func splitAddr(addr string) (host, port string) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", ""
	}
	return strings.Trim(addr[:i], "[]"), addr[i+1:]
}
