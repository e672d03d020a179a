package rueidisconn

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// The cluster is polled after a call without a reply.
const (
	pollEvery = 250 * time.Millisecond // interval of the polls
	pollFor   = 5 * time.Second        // how long to poll after such a call: longer than the next call may take
	divertFor = 5 * time.Second        // how long calls are diverted after a change: by then rueidis knows the new slots
)

// Suspect implements adapter.Masters. It also makes the next Do refresh the slots.
func (n *nodes) Suspect() {
	n.stale.Store(true)
	n.Poller.Suspect()
}

// poll reports whether slots have got other masters, and whether the polls must end because the
// client takes no calls any more. It is needed because rueidis does not end a call that waits
// for a connection to a node that hangs, even when rueidis has learnt of new masters.
func (n *nodes) poll() (changed, last bool) {
	n.stale.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	slots := n.slots(ctx)
	changed = len(slots) > 0 && !slices.Equal(slots, n.polled)
	if changed {
		n.polled = slots
		n.divertUntil.Store(time.Now().Add(divertFor).UnixNano())
	}
	return changed, n.library.Refuse() != nil
}

// divert runs calls at the node that has all their slots, as far as is known. It does so only
// for the time divertFor after a poll has found a change of the slots. If it did not run the
// calls, it returns false. divert is needed because rueidis refreshes its own slots up to a
// second after it has got a reason, and asks only one node, which may still return the old
// masters.
func (n *nodes) divert(ctx context.Context, calls []redishold.Call) ([]redishold.Result, bool) {
	if time.Now().UnixNano() >= n.divertUntil.Load() {
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
