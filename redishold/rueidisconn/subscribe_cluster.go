package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// A dedicated connection of a cluster client of rueidis serves one slot. So this package uses
// rueidis' clients for the single nodes: their dedicated connections serve all slots of the
// node.

func (n *nodes) Route(ctx context.Context, channel string) (adapter.Node, error) {
	addr := n.slots(ctx).home(n.slot(channel))
	if addr == "" {
		return adapter.Node{}, adapter.Classify(ctx, errors.New("no node of the cluster is known to serve the channel"), true)
	}
	server, ok := n.server(ctx, addr)
	if !ok {
		return adapter.Node{}, adapter.Classify(ctx, fmt.Errorf("the client does not know the node %s yet", addr), true)
	}
	return adapter.Node{Addr: addr, Dial: dial(server)}, nil
}

// These constants are for calls of the script `nudge`. After such a call, rueidis refreshes its
// nodes within a second.
const (
	nudgeEvery   = 200 * time.Millisecond // interval of these calls
	nudgeTimeout = 2 * time.Second        // how long the script is called
)

// nudge is a script whose reply makes rueidis refresh its nodes. It has no key, because the
// user might not have the permission for that key.
const nudge = "return redis.error_reply('TRYAGAIN look at the cluster')"

// server returns rueidis' client for the node at addr. If rueidis does not know the node yet,
// or does not know it any more, server waits until rueidis has refreshed its nodes.
func (n *nodes) server(ctx context.Context, addr string) (rueidis.Client, bool) {
	ctx, cancel := context.WithTimeout(ctx, nudgeTimeout)
	defer cancel()
	pause := time.Tick(nudgeEvery)
	for client := n.library.client; ; {
		if server, ok := client.Nodes()[addr]; ok {
			return server, true
		}
		_, _ = adapter.Guard(ctx, func() error {
			return client.Do(withoutDeadline{ctx}, client.B().Eval().Script(nudge).Numkeys(0).Build().ToPipe()).Error()
		})
		select {
		case <-pause:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Review implements adapter.Router: it starts one poll, and the next Route refreshes the slots.
// A Hub reviews every ten seconds. So Review does not poll for as long as Suspect.
func (n *nodes) Review() {
	n.stale.Store(true)
	n.Once()
}
