package zkhold

import "context"

// with runs call when no other call about the claim is under way, and goes on when ctx
// ends. A node that is to be removed by then is removed. It does not wait for another call
// without a connection: what the client could not send yet it sends on the next one.
func with[T any](ctx context.Context, l *link, at place, call func(n *node) (T, error)) (T, error) {
	n := l.use(at)
	if err := l.await(ctx, n); err != nil {
		l.leave(at, n)
		var none T
		return none, err
	}
	return do(ctx, &l.tasks, func() (T, error) {
		defer l.leave(at, n)
		defer func() { <-n.turn }()
		value, err := call(n)
		sweep := false
		l.set(func() { sweep = err == nil && n.doomed && (n.name != "" || n.unsure) })
		if sweep {
			if there, failed := l.remove(at, n); failed == nil {
				l.set(func() { n.swept = there })
			}
		}
		return value, errorOf(err)
	})
}

// await waits for the turn.
func (l *link) await(ctx context.Context, n *node) error {
	select {
	case n.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case n.turn <- struct{}{}:
		return nil
	case <-l.broken():
		return errDisconnected
	case <-ctx.Done():
		return notExecuted(ctx.Err())
	}
}

func (l *link) use(at place) *node {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[at]
	if n == nil {
		n = &node{turn: make(chan struct{}, 1)}
		l.nodes[at] = n
	}
	n.users++
	return n
}

func (l *link) leave(at place, n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 && n.name == "" && !n.unsure && !n.swept {
		delete(l.nodes, at)
	}
}
