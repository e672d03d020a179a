package zkhold

import "github.com/holdfast-go/holdfast/internal/ordered"

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
