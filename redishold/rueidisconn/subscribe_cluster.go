package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// rueidis' own dedicated connection of a cluster serves one slot. Those of its
// clients for the single nodes know no slots, and serve all of their node.

var errNoMaster = errors.New("no node of the cluster is known to serve the channel")

func (n *nodes) Route(ctx context.Context, channel string) (adapter.Node, error) {
	addr := n.slots(ctx).home(n.slot(channel))
	if addr == "" {
		return adapter.Node{}, adapter.Classify(ctx, errNoMaster, true)
	}
	server, ok := n.server(ctx, addr)
	if !ok {
		return adapter.Node{}, adapter.Classify(ctx, fmt.Errorf("the client does not know the node %s yet", addr), true)
	}
	return adapter.Node{Addr: addr, Dial: dial(server)}, nil
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
func (n *nodes) server(ctx context.Context, addr string) (rueidis.Client, bool) {
	ctx, cancel := context.WithTimeout(ctx, introduceLimit)
	defer cancel()
	pause := time.Tick(introduceEvery)
	for client := n.library.client; ; {
		if server, ok := client.Nodes()[addr]; ok {
			return server, true
		}
		_, _ = adapter.Guard(ctx, func() error {
			return client.Do(undated{ctx}, client.B().Eval().Script(nudge).Numkeys(0).Build()).Error()
		})
		select {
		case <-pause:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Review makes the next Route look at the cluster again.
func (n *nodes) Review(string) { n.Suspect() }

func (n *nodes) Any(ctx context.Context, stay adapter.Node, failed string) (adapter.Node, error) {
	slots, servers := n.slots(ctx), n.library.client.Nodes() // rueidis may have made that of stay again
	chosen := ""
	for addr := range servers { // in no order
		if slots.has(addr) && (addr == stay.Addr || chosen == "" || chosen == failed && chosen != stay.Addr) {
			chosen = addr
		}
	}
	if chosen == "" {
		return adapter.Node{}, adapter.Classify(ctx, errNoMaster, true)
	}
	return adapter.Node{Addr: chosen, Dial: dial(servers[chosen])}, nil
}

// has reports whether addr is the master of a slot.
func (m slotMap) has(addr string) bool {
	return slices.ContainsFunc(m, func(r slotRange) bool { return r.addr == addr })
}
