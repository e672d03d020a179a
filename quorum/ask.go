package quorum

import (
	"context"
	"sync/atomic"
	"time"
)

// callTimeout is the timeout of a call for nodes that do not answer. It leaves the
// caller, whose context may end soon, the time to learn what the others said.
// Without a deadline it is a twentieth of the lease.
func callTimeout(ctx context.Context, ttl time.Duration) time.Duration {
	const least = 10 * time.Millisecond
	deadline, ok := ctx.Deadline()
	if !ok {
		return min(max(ttl/20, least), 250*time.Millisecond)
	}
	// The core gives a call more time after each one without an answer.
	return max(min(time.Until(deadline)/2, max(ttl/4, 2*least), 2*time.Second), time.Millisecond)
}

// grace is how long a call waits for nodes that did not answer the last time, if
// there are enough others.
func grace(callTimeout time.Duration) time.Duration { return callTimeout / 8 }

// reply is what one node answered.
type reply[T any] struct {
	node  int
	value T
}

// flight is the calls of one ask. The last of them frees their context.
type flight struct {
	cancel context.CancelFunc
	left   atomic.Int64
}

func (f *flight) land() {
	if f.left.Add(-1) == 0 {
		f.cancel()
	}
}

// ask runs fn for each of nodes at the same time and hands the answers to take,
// one by one as they come in, until take says that it has heard enough. It
// returns nil then, and also when no more answers are worth waiting for; if ctx
// ends first it ends all calls and returns ctx's error. Otherwise fn goes on, in
// the background and within limit, for the nodes that have not answered.
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

// slowOnly reports that all that are waited for did not answer the last time
// either, and that the others are enough to go on without them.
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

// giveUpOn notes that nodes did not answer in time, even where their calls do
// not end with their contexts.
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
