package rueidisconn

import (
	"context"
	"slices"
	"time"
)

// The cluster is polled after a call without a reply.
const (
	pollEvery = 250 * time.Millisecond // interval of the polls
	pollFor   = 5 * time.Second        // how long to poll after such a call: longer than the next call may take
	divertFor = 5 * time.Second        // how long calls are diverted after a change: by then rueidis knows the new slots
)

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
