package adapter

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/holdfast-go/holdfast/redishold"
)

// group is what of a batch can travel together.
type group struct {
	kind
	at []int // the places of its calls in the batch
}

type kind struct {
	home    string
	keyless bool // rueidis panics if calls with and without a key meet
	waits   bool // replicas must acknowledge: over one connection, WAIT behind it
}

// groups splits a batch by home. There are few: two or three per node.
func groups(calls []redishold.Call, homes []string) []group {
	var gs []group
	index := make(map[kind]int)
	for i := range calls {
		k := kind{home: homes[i], keyless: len(calls[i].Keys) == 0, waits: calls[i].Replicas > 0}
		j, ok := index[k]
		if !ok {
			j = len(gs)
			index[k] = j
			gs = append(gs, group{kind: k})
		}
		gs[j].at = append(gs[j].at, i)
	}
	return gs
}

// answer is what came back for a group.
type answer struct {
	at      []int
	results []redishold.Result
}

// spread runs calls on the nodes of a cluster, side by side.
func spread(ctx context.Context, c Client, cluster Cluster, calls []redishold.Call) []redishold.Result {
	answers := make(chan answer, len(calls)) // so that nobody waits for a caller who has gone
	go func() {
		for _, g := range groups(calls, cluster.Homes(ctx, calls)) {
			go func() { answers <- answer{g.at, g.runAtMaster(ctx, c, cluster, pick(calls, g.at))} }()
		}
	}()
	results := gather(ctx, len(calls), answers)
	for i := range results {
		if doubtful(results[i].Err) {
			cluster.Doubt()
			break
		}
	}
	return results
}

// gather collects answers until there is one for each of n calls, or ctx ends.
// Those that are missing then carry ctx's error.
func gather(ctx context.Context, n int, answers <-chan answer) []redishold.Result {
	results, known := make([]redishold.Result, n), make([]bool, n)
	take := func(a answer) {
		scatter(results, a.at, a.results)
		for _, i := range a.at {
			known[i] = true
		}
		n -= len(a.at)
	}
	for n > 0 {
		select {
		case a := <-answers:
			take(a)
		case <-ctx.Done():
			for len(answers) > 0 { // both were ready: an answer is worth more than an end
				take(<-answers)
			}
			for i := range results {
				if !known[i] {
					results[i].Err = ctx.Err()
				}
			}
			return results
		}
	}
	return results
}

// runAtMaster is run, until another node is found to be the master of the group.
func (g group) runAtMaster(ctx context.Context, c Client, cluster Cluster, calls []redishold.Call) []redishold.Result {
	if cluster.Changed() == nil {
		return g.run(ctx, c, cluster, calls)
	}
	results, err := atMaster(ctx, cluster, calls, func() []redishold.Result { return g.run(ctx, c, cluster, calls) })
	if err != nil {
		return Fail(len(calls), err)
	}
	return results
}

func (g group) run(ctx context.Context, c Client, cluster Cluster, calls []redishold.Call) []redishold.Result {
	return Complete(calls, func(calls []redishold.Call) []redishold.Result {
		if g.waits {
			return Follow(ctx, cluster, Destination{Addr: g.home}, calls)
		}
		return c.Pipeline(ctx, calls)
	})
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
		cluster.Doubt()
		for to, at := range elsewhere {
			scatter(results, at, cluster.At(ctx, to, pick(calls, at)))
		}
	}
	return results
}

// redirection reads the answers MOVED and ASK: "MOVED 3999 127.0.0.1:6381". A
// server that does not know its own name leaves the host out; it is that of
// asked, which gave the answer.
func redirection(err error, asked string) (to Destination, ok bool) {
	var reply *redishold.ReplyError
	if !errors.As(err, &reply) {
		return Destination{}, false
	}
	words := strings.Fields(reply.Text)
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return Destination{}, false
	}
	addr := words[2]
	host, port, err := splitAddr(addr)
	if err != nil {
		return Destination{}, false
	}
	if host == "" {
		host, _, _ = splitAddr(asked)
	}
	if host == "" {
		return Destination{}, false
	}
	return Destination{Addr: net.JoinHostPort(host, port), Told: true, Asking: words[0] == "ASK"}, true
}

// splitAddr splits host:port. Redis writes IPv6 addresses without brackets.
func splitAddr(addr string) (host, port string, err error) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", "", errors.New("address without a port")
	}
	return strings.Trim(addr[:i], "[]"), addr[i+1:], nil
}
