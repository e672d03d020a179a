package rueidisconn

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// How the cluster is looked at after a call without an answer, and what follows from
// a change.
const (
	watchEvery = 250 * time.Millisecond
	watchFor   = 5 * time.Second // after the latest such call: longer than the next one may take
	detourFor  = 5 * time.Second // rueidis has learned of the change by then
)

// Suspect makes the next batch look again where keys live, and looks on for a while.
func (n *nodes) Suspect() {
	n.doubt.Store(true)
	n.Watch.Suspect()
}

// watch looks whether the slots have other masters. A call that waits for rueidis to
// connect to a node that hangs does not end with the news.
func (n *nodes) watch() (changed, last bool) {
	n.doubt.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	slots := n.slots(ctx)
	changed = len(slots) > 0 && !slices.Equal(slots, n.seen)
	if changed {
		n.seen = slots
		n.detour.Store(time.Now().Add(detourFor).UnixNano())
	}
	return changed, n.library.Refuse() != nil
}

// divert runs calls at the node where the latest look has found them, if there has
// just been a change. rueidis looks up to a second after it was given a reason, asks
// one node, and may hear from that what was true before.
func (n *nodes) divert(ctx context.Context, calls []redishold.Call) ([]redishold.Result, bool) {
	if time.Now().UnixNano() >= n.detour.Load() {
		return nil, false
	}
	var home string
	for i, known := range n.Homes(ctx, calls) {
		if known == "" || i > 0 && known != home {
			return nil, false
		}
		home = known
	}
	node := adapter.Destination{Addr: home}
	if _, ok := n.client(ctx, node, calls); !ok {
		return nil, false
	}
	return adapter.Follow(ctx, n, node, calls), true
}
