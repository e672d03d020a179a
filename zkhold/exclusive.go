package zkhold

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/unsent"
)

// withNode runs the function `call` when no other call for the node is under way. If ctx ends,
// the function continues in the background. After the function has succeeded, withNode deletes
// the node if its deletion is pending. Without a connection withNode does not wait for another
// call, because that call may wait until there is a connection.
func withNode[T any](ctx context.Context, l *link, key nodeKey, call func(n *node) (T, error)) (none T, err error) {
	n := l.retain(key)
	if err = l.lockNode(ctx, n); err != nil {
		l.release(key, n)
		return none, err
	}
	return do(ctx, &l.tasks, func() (T, error) {
		defer l.release(key, n)
		defer func() { <-n.mutex }()
		value, err := call(n)
		sweep := false
		l.set(func() { sweep = err == nil && n.deletePending && (n.name != "" || n.indeterminate) })
		if sweep {
			if there, failed := l.remove(key, n); failed == nil {
				l.set(func() { n.deletedUnreported = there })
			}
		}
		return value, errorOf(err)
	})
}

// lockNode locks the mutex of n. It returns an error if ctx ends, or if the connection breaks,
// while it waits.
func (l *link) lockNode(ctx context.Context, n *node) error {
	select {
	case n.mutex <- struct{}{}:
		return nil
	default:
	}
	select {
	case n.mutex <- struct{}{}:
		return nil
	case <-l.broken():
		return errDisconnected
	case <-ctx.Done():
		return unsent.Error(ctx.Err())
	}
}

func (l *link) retain(key nodeKey) *node {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[key]
	if n == nil {
		n = &node{mutex: make(chan struct{}, 1)}
		l.nodes[key] = n
	}
	n.users++
	return n
}

func (l *link) release(key nodeKey, n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 && n.name == "" && !n.indeterminate && !n.deletedUnreported {
		delete(l.nodes, key)
	}
}
