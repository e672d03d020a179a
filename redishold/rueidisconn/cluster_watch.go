package rueidisconn

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// How the cluster is looked at after a call without an answer, and what follows from
// a change.
const (
	watchEvery = 250 * time.Millisecond
	watchFor   = 5 * time.Second // after the latest such call: longer than the next one may take
	detourFor  = 5 * time.Second // rueidis has heard of the change by then
)

// watch is the state of the looks that go on while there is doubt.
type watch struct {
	mu      sync.Mutex
	until   time.Time     // looks go on till then
	seen    slotMap       // what the latest look found
	changed chan struct{} // closed when a look finds another; nil while nobody looks

	detour atomic.Int64 // till when calls go where the latest look says, in Unix nanoseconds
}

// Doubt makes the next batch look again where keys live, and looks on for a while: a
// call was not answered, and its node may be replaced only some seconds later.
func (n *nodes) Doubt() {
	n.doubt.Store(true)
	n.watch.mu.Lock()
	defer n.watch.mu.Unlock()
	n.watch.until = time.Now().Add(watchFor)
	if n.watch.changed == nil {
		n.watch.changed = make(chan struct{})
		go n.keepLooking()
	}
}

// Changed returns what is closed when the slots are found to have other masters, and
// nil while nobody looks. A call that waits for rueidis to connect to a node that
// hangs does not end with the news.
func (n *nodes) Changed() <-chan struct{} {
	n.watch.mu.Lock()
	defer n.watch.mu.Unlock()
	return n.watch.changed
}

// keepLooking looks, and comes again until there is no more doubt. Between two looks
// it is a timer only.
func (n *nodes) keepLooking() {
	n.doubt.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	slots := n.slots(ctx)
	cancel()
	if !n.watch.found(slots, n.library.closed.Load()) {
		time.AfterFunc(watchEvery, n.keepLooking)
	}
}

// found records what a look has found, nil for nothing, and reports whether it was
// the last.
func (w *watch) found(slots slotMap, closed bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(slots) > 0 && !slices.Equal(slots, w.seen) {
		w.seen = slots
		w.detour.Store(time.Now().Add(detourFor).UnixNano())
		close(w.changed)
		w.changed = make(chan struct{})
	}
	if !closed && time.Now().Before(w.until) {
		return false
	}
	w.changed = nil
	return true
}

// detour runs calls at the node where the latest look has found them, if there has
// just been a change. rueidis looks up to a second after it was given a reason, asks
// one node, and may hear from that what was true before.
func (n *nodes) detour(ctx context.Context, calls []redishold.Call) ([]redishold.Result, bool) {
	if time.Now().UnixNano() >= n.watch.detour.Load() {
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
