package zkhold

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// watchConfirms reports whether Has needs no request for the node. Has needs no request if a
// watch shows that the node exists, or if this process is deleting the node.
func (n *node) watchConfirms() bool {
	return n.deletePending || n.deletedUnreported || n.name != "" && !n.indeterminate && n.watch != nil && !n.watch.fired
}

// has reports which entries are known to exist. `unconfirmed` has the keys of the nodes that
// may exist, and for which Has must make requests.
func (l *link) has(entries []ordered.Entry) (there []bool, unconfirmed []nodeKey) {
	there = make([]bool, len(entries))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range entries {
		key := nodeKey{e.Name, "", e.Label.ID}
		if e.Label.Kind == ordered.Permit {
			key.folder = leasesFolder
		}
		switch n := l.nodes[key]; {
		case n == nil:
		case n.watchConfirms():
			there[i] = true
		case n.users == 0:
			unconfirmed = append(unconfirmed, key)
		}
	}
	return there, unconfirmed
}

// own returns the nodes of this session that may exist.
func (l *link) own() (entries []ordered.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, n := range l.nodes {
		if n.watchConfirms() || n.users == 0 {
			entries = append(entries, ordered.Entry{Name: key.name, Key: n.name, Label: ordered.Label{ID: key.id, Kind: key.kind()}})
		}
	}
	return entries
}

// watchAgain watches nodes whose watches ended because a connection broke. It makes a few
// requests for all nodes, while verify makes two for each node. If a node was deleted,
// ZooKeeper sends the event before the reply to the next request. watchAgain leaves out nodes
// that were deleted, and nodes whose name or czxid is not known. The caller calls verify for
// these nodes.
func (l *link) watchAgain(ctx context.Context, nodes []nodeKey) error {
	var targets []target
	l.mu.Lock()
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(key nodeKey) bool {
		n := l.nodes[key]
		known := n != nil && n.isIdle() && n.order != 0
		if known {
			targets = append(targets, target{path: l.path(key.name) + "/" + n.name})
		}
		return !known
	})
	l.mu.Unlock()
	if len(targets) == 0 {
		return nil
	}
	watches := l.addWatches(targets)
	_, err := do(ctx, &l.tasks, func() (any, error) {
		return nil, errorOf(l.call(func() error {
			_, _, err := l.conn.Exists("/")
			return err
		}))
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, key := range nodes {
		if n := l.nodes[key]; n != nil && n.isIdle() && l.path(key.name)+"/"+n.name == targets[i].path && !watches[i].fired {
			n.watch, watches[i].claim = watches[i], key
		}
	}
	return nil
}

// isIdle reports whether the node probably exists, and no call for it is under way.
func (n *node) isIdle() bool {
	return n.users == 0 && n.name != "" && !n.indeterminate && !n.deletePending && !n.deletedUnreported
}
