package zkhold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

// path returns the path of a lock.
func (l *link) path(name string) string { return pathOf(l.opts.Root, name) }

// acl returns the permissions of new nodes.
func (l *link) acl() []zk.ACL {
	if l.opts.ACL != nil {
		return l.opts.ACL
	}
	return zk.WorldACL(zk.PermAll)
}

// list returns the queue of a name. The first entry has its note.
func (l *link) list(name string) ([]ordered.Entry, error) {
	queue, err := l.children(name)
	if err != nil {
		return nil, err
	}
	return l.complete(name, queue)
}

// complete fills in the first entry of a queue, because its note names the holder. It returns
// driver.ErrMismatch if the node of that entry is not ephemeral.
func (l *link) complete(name string, queue []ordered.Entry) ([]ordered.Entry, error) {
	// The link knows the notes of the nodes of its own session. So it reads only a node of
	// another session.
	if len(queue) == 0 || !strings.HasSuffix(queue[0].Key, queue[0].Label.ID) {
		return queue, nil
	}
	data, stat, err := l.get(l.path(name) + "/" + queue[0].Key)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return queue, nil
	case err != nil:
		return nil, err
	case stat.EphemeralOwner == 0:
		return nil, fmt.Errorf("the node %s below %q is not ephemeral, and would keep the name taken forever: %w", queue[0].Key, l.path(name), driver.ErrMismatch)
	}
	queue[0].Order, queue[0].Session, queue[0].Note = uint64(stat.Czxid), stat.EphemeralOwner, string(data)
	node := path.Base(queue[0].Key)
	if id := idOf(sessionPrefix(stat.EphemeralOwner), node); id != node {
		queue[0].Label.ID = id + "@" // with the "@" it differs from all IDs of claims of this session
	}
	return queue, nil
}

// read does what list does, with a context. It reads the note of the first entry only if
// `named` is true.
func (l *link) read(ctx context.Context, name string, named bool) ([]ordered.Entry, error) {
	return do(ctx, &l.tasks, func() ([]ordered.Entry, error) {
		list := l.children
		if named {
			list = l.list
		}
		queue, err := list(name)
		return queue, errorOf(err)
	})
}

// children returns the nodes of claims below a name, in the order of their sequence numbers.
// Negative numbers, from beyond the end of the counter, are first, as in Curator. Permits are
// in a folder of their own. In the result, they are before all other nodes.
func (l *link) children(name string) ([]ordered.Entry, error) {
	queue, folders, err := l.folder(name, "")
	if err == nil && slices.Contains(folders, strings.TrimSuffix(leasesFolder, "/")) {
		var permits []ordered.Entry
		permits, _, err = l.folder(name, leasesFolder)
		permits = slices.DeleteFunc(permits, func(e ordered.Entry) bool { return e.Label.Kind != ordered.Permit })
		queue = append(permits, queue...)
	}
	return queue, err
}

// folder returns the nodes of claims in a folder of a name, and the names of the other nodes
// there.
func (l *link) folder(name, folder string) (queue []ordered.Entry, others []string, err error) {
	var nodes []string
	err = l.call(func() (err error) {
		nodes, _, err = l.conn.Children(strings.TrimSuffix(l.path(name)+"/"+folder, "/"))
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	type claim struct {
		node  string
		label ordered.Label
		seq   int32
	}
	claims := make([]claim, 0, len(nodes))
	for _, node := range nodes {
		if m, seq, ok := parse(node); ok {
			claims = append(claims, claim{node, m, seq})
		} else {
			others = append(others, node)
		}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.seq, b.seq) })
	queue = make([]ordered.Entry, 0, len(claims))
	l.mu.Lock()
	defer l.mu.Unlock()
	own := sessionPrefix(l.session)
	for _, c := range claims {
		e := ordered.Entry{Name: name, Key: folder + c.node, Label: c.label}
		e.Label.ID = idOf(own, c.node)
		if n := l.nodes[nodeKey{name, folder, e.Label.ID}]; n != nil {
			e.Order, e.Note, e.Session = n.order, n.note, l.session
		}
		queue = append(queue, e)
	}
	return queue, others, nil
}

// lastNumber is the largest sequence number of a claim that may be granted. It is so far from
// the end of the counter that creations that are under way cannot reach the end.
const lastNumber = math.MaxInt32 - 1_000_000 - 1

// counted returns an error for a claim whose node has a sequence number near the end of the
// server's counter. The counter does not wrap but stays at its end, so several nodes get the
// same number. With several creations under way, the counter is even negative for a moment.
func (l *link) counted(key nodeKey, node string) error {
	_, seq, _ := parse(path.Base(node))
	if seq >= 0 && seq <= lastNumber {
		return nil
	}
	dir := strings.TrimSuffix(l.path(key.name)+"/"+key.folder, "/")
	return refused("ZooKeeper cannot count the claims of this lock any further", driver.ErrRefused,
		fmt.Errorf("delete the node %s when nobody holds the lock or waits for it, and the count begins again (it is at %d of %d)", dir, seq, math.MaxInt32))
}
