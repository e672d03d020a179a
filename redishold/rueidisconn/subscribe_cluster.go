package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// rueidis' own dedicated connection of a cluster serves one slot. Those of its
// clients for the single nodes know no slots, and serve all of their node.

var errNoMaster = errors.New("no node of the cluster is known to serve the channel")

// masters finds the nodes of channels that belong to a slot.
type masters struct {
	nodes   *nodes
	sharded bool
}

// Route looks the channel's slot up.
func (m masters) Route(ctx context.Context, channel string) (adapter.Node, error) {
	addr := m.nodes.slots(ctx).home(m.nodes.slot(channel))
	if addr == "" {
		return adapter.Node{}, unroutable(ctx, errNoMaster)
	}
	server, ok := m.server(ctx, addr)
	if !ok {
		return adapter.Node{}, unroutable(ctx, fmt.Errorf("the client does not know the node %s yet", addr))
	}
	return adapter.Node{Addr: addr, Dial: dial(server, m.sharded)}, nil
}

// rueidis looks at the cluster up to a second after it was given a reason.
const (
	introduceEvery = 200 * time.Millisecond
	introduceLimit = 2 * time.Second
)

// nudge is a script whose answer makes rueidis look at the cluster. It needs no
// key, which would have to be one that the user has a right to.
const nudge = "return redis.error_reply('TRYAGAIN look at the cluster')"

// server returns rueidis' client for the node at addr. It waits for a node that
// is new to rueidis, or that had been away.
func (m masters) server(ctx context.Context, addr string) (rueidis.Client, bool) {
	ctx, cancel := context.WithTimeout(ctx, introduceLimit)
	defer cancel()
	pause := time.NewTicker(introduceEvery)
	defer pause.Stop()
	for client := m.nodes.library.client; ; {
		if server, ok := client.Nodes()[addr]; ok {
			return server, true
		}
		_, _ = adapter.Guard(ctx, func() error {
			return client.Do(undated{ctx}, client.B().Eval().Script(nudge).Numkeys(0).Build()).Error()
		})
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Doubt makes the next Route look at the cluster again.
func (m masters) Doubt(string) { m.nodes.Doubt() }

// anywhere finds a node for the classic channels, which each node has: it stays
// with one until that fails or leaves the cluster. rueidis would not notice the
// latter: the connection stays open, and silent.
type anywhere struct {
	nodes *nodes

	mu     sync.Mutex
	chosen string // "" for none
	failed string // the latest that did; any other is better
}

// Route returns the chosen node while it is part of the cluster, and otherwise
// chooses one.
func (a *anywhere) Route(ctx context.Context, _ string) (adapter.Node, error) {
	slots := a.nodes.slots(ctx)
	servers := a.nodes.library.client.Nodes()
	a.mu.Lock()
	defer a.mu.Unlock()
	if servers[a.chosen] == nil || !slots.has(a.chosen) {
		a.chosen = a.choose(slots, servers)
	}
	if a.chosen == "" {
		return adapter.Node{}, unroutable(ctx, errNoMaster)
	}
	return adapter.Node{Addr: a.chosen, Dial: dial(servers[a.chosen], false)}, nil
}

// choose returns the address of a master that rueidis knows, one that has not
// failed if there is one.
func (a *anywhere) choose(slots slotMap, servers map[string]rueidis.Client) string {
	for addr := range servers { // in no order
		if addr != a.failed && slots.has(addr) {
			return addr
		}
	}
	if servers[a.failed] != nil && slots.has(a.failed) {
		return a.failed
	}
	return ""
}

// Doubt makes the next Route look at the cluster again, and leave addr.
func (a *anywhere) Doubt(addr string) {
	a.nodes.Doubt()
	if addr == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = addr
	if a.chosen == addr {
		a.chosen = ""
	}
}

// has reports whether addr is the master of a slot.
func (m slotMap) has(addr string) bool {
	return slices.ContainsFunc(m, func(r slotRange) bool { return r.addr == addr })
}

// unroutable is the error of a subscription that had nowhere to go.
func unroutable(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		err = ended
	}
	return adapter.NotSent(err)
}
