package zkhold

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// watched says that a watch says that the node is there, or that it is to be removed.
func (n *node) watched() bool {
	return n.doomed || n.swept || n.name != "" && !n.unsure && n.watch != nil && !n.watch.fired
}

// has says of which entries it is known that they are there, and returns the nodes of which
// it is not.
func (l *link) has(entries []ordered.Entry) (there []bool, doubtful []place) {
	there = make([]bool, len(entries))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range entries {
		at := place{e.Name, "", e.Mark.ID}
		if e.Mark.Kind == ordered.Permit {
			at.folder = leases
		}
		switch n := l.nodes[at]; {
		case n == nil:
		case n.watched():
			there[i] = true
		case n.users == 0:
			doubtful = append(doubtful, at)
		}
	}
	return there, doubtful
}

// own returns the nodes of this session that may be there.
func (l *link) own() (entries []ordered.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, n := range l.nodes {
		if n.watched() || n.users == 0 {
			entries = append(entries, ordered.Entry{Name: at.name, Key: n.name, Mark: ordered.Mark{ID: at.id, Kind: at.kind()}})
		}
	}
	return entries
}

// watchAgain watches nodes whose watches ended with a connection: all of them with a few
// requests, where verify takes two for each. Of a node that is not there any more the event
// comes before the answer to what is asked next. Nodes of which little is known, and those
// that have gone, are left to verify.
func (l *link) watchAgain(ctx context.Context, nodes []place) error {
	var targets []target
	l.mu.Lock()
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(at place) bool {
		n := l.nodes[at]
		known := n != nil && n.quiet() && n.order != 0
		if known {
			targets = append(targets, target{path: l.path(at.name) + "/" + n.name})
		}
		return !known
	})
	l.mu.Unlock()
	if len(targets) == 0 {
		return nil
	}
	watches := l.observe(targets)
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
	for i, at := range nodes {
		if n := l.nodes[at]; n != nil && n.quiet() && l.path(at.name)+"/"+n.name == targets[i].path && !watches[i].fired {
			n.watch, watches[i].own = watches[i], at
		}
	}
	return nil
}

// quiet says that there is a node, for all that is known, and that no call about it is under
// way.
func (n *node) quiet() bool {
	return n.users == 0 && n.name != "" && !n.unsure && !n.doomed && !n.swept
}
