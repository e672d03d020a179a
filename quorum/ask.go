package quorum

import (
	"context"
	"sync/atomic"
	"time"
)

// callTimeout returns the timeout of the calls to the nodes. It is at most half of the time
// until the deadline of ctx, so that the caller has time left when a node does not answer.
// Without a deadline it is a twentieth of the lease, within bounds.
func callTimeout(ctx context.Context, ttl time.Duration) time.Duration {
	const least = 10 * time.Millisecond
	deadline, ok := ctx.Deadline()
	if !ok {
		return min(max(ttl/20, least), 250*time.Millisecond)
	}
	// The core gives a call more time after each call without an answer.
	return max(min(time.Until(deadline)/2, max(ttl/4, 2*least), 2*time.Second), time.Millisecond)
}

// grace returns how long a call waits for slow nodes, if the other nodes are a majority. A slow
// node is one that did not answer its last call.
func grace(callTimeout time.Duration) time.Duration { return callTimeout / 8 }

// reply is the answer of one node.
type reply[T any] struct {
	node  int
	value T
}

// flight is the state that the calls of one ask share. The last call that ends cancels the
// context of all these calls.
type flight struct {
	cancel context.CancelFunc
	left   atomic.Int64
}

func (f *flight) land() {
	if f.left.Add(-1) == 0 {
		f.cancel()
	}
}

// ask calls fn for each of the nodes at the same time. It passes the answers to the function
// `take`, in the order in which they arrive. It returns nil when `take` returns true, when all
// nodes have answered, when the time limit has passed, or when only slow nodes have not
// answered after the time that the function grace returns. In these cases the calls of fn that
// have not ended continue in the background until the time limit. If ctx ends first, ask ends
// all calls and returns the error of ctx.
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

// slowOnly reports whether all nodes in `waiting` are slow, and the nodes that are not slow are
// a majority.
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

// giveUpOn records that the nodes in `waiting` are slow, because they did not answer in time.
// It does not wait for their calls, which may continue after their contexts have ended.
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
