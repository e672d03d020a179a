package quorum

import (
	"context"
	"sync/atomic"
	"time"
)

// callTimeout returns the timeout of calls to nodes that do not answer. It leaves the
// caller, whose context may end soon, time for the answers of the others. Without a
// deadline it is a twentieth of the lease.
func callTimeout(ctx context.Context, ttl time.Duration) time.Duration {
	const least = 10 * time.Millisecond
	deadline, ok := ctx.Deadline()
	if !ok {
		return min(max(ttl/20, least), 250*time.Millisecond)
	}
	// The core gives a call more time after each one without an answer.
	return max(min(time.Until(deadline)/2, max(ttl/4, 2*least), 2*time.Second), time.Millisecond)
}

// grace returns how long a call waits for nodes that did not answer the last time, if the
// others are enough.
func grace(callTimeout time.Duration) time.Duration { return callTimeout / 8 }

// reply is the answer of one node.
type reply[T any] struct {
	node  int
	value T
}

// flight is the state that the calls of one ask share. The last of them ends their context.
type flight struct {
	cancel context.CancelFunc
	left   atomic.Int64
}

func (f *flight) land() {
	if f.left.Add(-1) == 0 {
		f.cancel()
	}
}

// ask runs fn for each of nodes at the same time. It passes the answers to take, in the
// order in which they arrive, until take returns true. Then it returns nil, and also if no
// further answer is worth waiting for. If ctx ends first, it ends all calls and returns
// ctx's error. In the other cases fn goes on in the background, within limit, for the nodes
// that have not answered.
func ask[T any](ctx context.Context, b *Backend, limit time.Duration, nodes []int,
	fn func(ctx context.Context, node int) T, take func(node int, answer T) (enough bool),
) error {
	if len(nodes) == 0 {
		return nil
	}
	calls, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	f := &flight{cancel: cancel}
	f.left.Store(int64(len(nodes)))
	replies := make(chan reply[T], len(nodes))
	waiting := make(map[int]bool, len(nodes))
	for _, i := range nodes {
		waiting[i] = true
		b.background.Go(func() {
			defer f.land()
			replies <- reply[T]{i, fn(calls, i)}
		})
	}
	early, late := time.NewTimer(grace(limit)), time.NewTimer(limit)
	defer early.Stop()
	defer late.Stop()
	impatient := false
	for len(waiting) > 0 {
		if impatient && b.slowOnly(waiting) {
			return nil
		}
		select {
		case r := <-replies:
			delete(waiting, r.node)
			if take(r.node, r.value) {
				return nil
			}
		case <-early.C:
			impatient = true
		case <-late.C:
			b.giveUpOn(waiting)
			return nil
		case <-ctx.Done():
			f.cancel()
			return ctx.Err()
		}
	}
	return nil
}

// slowOnly reports whether all nodes in waiting did not answer the last time either, and
// the others are enough without them.
func (b *Backend) slowOnly(waiting map[int]bool) bool {
	quick := 0
	for i, n := range b.nodes {
		if slow := n.slow.Load(); !slow {
			quick++
			if waiting[i] {
				return false
			}
		}
	}
	return quick >= b.majority
}

// giveUpOn records that nodes did not answer in time, even if their calls do not end with
// their contexts.
func (b *Backend) giveUpOn(waiting map[int]bool) {
	for i := range waiting {
		b.nodes[i].slow.Store(true)
	}
}

// all returns the numbers of all nodes.
func (b *Backend) all() []int {
	nodes := make([]int, len(b.nodes))
	for i := range nodes {
		nodes[i] = i
	}
	return nodes
}
