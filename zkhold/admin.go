package zkhold

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

// scanPage is how many nodes Names reads at the same time, at most.
const scanPage = 100

// adminCall runs the function `call` for an operator. If there is no session, it opens one
// first.
func adminCall[T any](ctx context.Context, s *store, call func(l *link) (T, error)) (none T, err error) {
	l, err := s.ready(ctx)
	if err != nil {
		return none, err
	}
	l.touchUnclaimed()
	return do(ctx, &l.tasks, func() (T, error) {
		l.set(func() { l.adminCalls++ })
		defer l.set(func() { l.adminCalls-- })
		value, err := call(l)
		return value, errorOf(err)
	})
}

// Names scans the tree below the root. It leaves out parts of the tree that cannot contain a
// name with the prefix. It skips nodes that it has no permission to read. If there was such a
// node, Names yields an error for it after all names.
func (s *store) Names(ctx context.Context, prefix string, b *budget.Budget) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		var hidden error
		pending := 0 // the memory of todo
		for todo := []scannedNode{{path: s.opts.Root}}; len(todo) > 0; {
			n, err := b.Page(ctx, min(scanPage, len(todo)))
			if err != nil {
				yield(nil, err)
				return
			}
			b.Spent(n - 1)
			page := slices.Clone(todo[len(todo)-n:])
			todo = todo[:len(todo)-n]
			for _, f := range page {
				pending -= f.memory()
			}
			if _, err = adminCall(ctx, s, func(l *link) (any, error) { return nil, l.readChildren(page) }); err != nil {
				yield(nil, err)
				return
			}
			var names []string
			for _, f := range page {
				if f.err != nil && !errors.Is(f.err, zk.ErrNoNode) {
					hidden = errorOf(f.err)
				}
				found, below := f.classify(s.opts.Root, prefix)
				names, todo = append(names, found...), append(todo, below...)
				for _, f := range below {
					pending += f.memory()
				}
			}
			if pending > mostPending {
				yield(nil, fmt.Errorf("the tree below %q has too many nodes for a list, or no end", s.opts.Root+"/"))
				return
			}
			if len(names) > 0 && !yield(names, nil) {
				return
			}
		}
		if hidden != nil {
			yield(nil, hidden)
		}
	}
}

// mostPending is how many bytes of memory the nodes to scan next may take. A server could list
// children of children without end.
const (
	mostPending = 16 << 20
	nodeCost    = 112 // the memory of a scannedNode without its path
)

// memory returns about how many bytes of memory f takes.
func (f *scannedNode) memory() int { return len(f.path) + nodeCost }

// scannedNode is a node in a scan, with its children.
type scannedNode struct {
	path      string
	role      string   // leasesFolder or locksFolder, if the node is that folder of a semaphore
	semaphore string   // for leasesFolder: the name of the semaphore; "" if the scan has yielded that name
	nodes     []string // the names of the children
	err       error    // why the children could not be read
}

// readChildren reads the children of the nodes. It returns an error if the scan cannot
// continue.
func (l *link) readChildren(page []scannedNode) error {
	var all sync.WaitGroup
	for i := range page {
		all.Go(func() {
			f := &page[i]
			f.err = l.call(func() (err error) {
				f.nodes, _, err = l.conn.Children("/" + strings.TrimPrefix(f.path, "/"))
				return err
			})
		})
	}
	all.Wait()
	for _, f := range page {
		if f.err != nil && !errors.Is(f.err, zk.ErrNoNode) && !errors.Is(f.err, zk.ErrNoAuth) {
			return f.err
		}
	}
	return nil
}

// classify returns the names that are in use according to the children of f, and the nodes to
// scan next. A name is in use if its node has claims as children, or if the folder "leases" of
// that node has permits. No name belongs to the folders of a semaphore.
func (f *scannedNode) classify(root, prefix string) (names []string, below []scannedNode) {
	name, named := nameOf(root, f.path)
	var own bool
	for _, node := range f.nodes {
		m, _, ok := parse(node)
		switch {
		case ok && f.role == leasesFolder && m.Kind == ordered.Permit:
			if strings.HasPrefix(f.semaphore, prefix) && f.semaphore != "" {
				names, f.semaphore = append(names, f.semaphore), ""
			}
		case ok:
			own = own || named && f.role != locksFolder
		default:
			below = append(below, scannedNode{path: f.path + "/" + node})
		}
	}
	if own && strings.HasPrefix(name, prefix) {
		names = append(names, name)
	}
	semaphore := named && slices.Contains(f.nodes, path.Dir(leasesFolder))
	for i := range below {
		switch part := path.Base(below[i].path) + "/"; {
		case semaphore && part == leasesFolder && !own:
			below[i].role, below[i].semaphore = part, name
		case semaphore && (part == leasesFolder || part == locksFolder):
			below[i].role = part
		}
	}
	return names, slices.DeleteFunc(below, func(next scannedNode) bool {
		at, ok := nameOf(root, next.path)
		return !ok || !strings.HasPrefix(at, prefix) && !strings.HasPrefix(prefix, at+"/")
	})
}

// FullQueue lists the queue. For a semaphore, the claims that wait for a permit are behind the
// permits. FullQueue leaves out waiting claims that already have a node among the permits.
func (s *store) FullQueue(ctx context.Context, name string) ([]ordered.Entry, error) {
	return adminCall(ctx, s, func(l *link) ([]ordered.Entry, error) {
		queue, err := l.list(name)
		if err != nil || len(queue) == 0 || queue[0].Label.Kind != ordered.Permit {
			return queue, err
		}
		waiting, _, err := l.folder(name, locksFolder)
		for _, e := range waiting {
			if e.Label.Kind == ordered.Mutex && !slices.ContainsFunc(queue, func(p ordered.Entry) bool { return unique(p.Key) == unique(e.Key) }) {
				queue = append(queue, e)
			}
		}
		return queue, err
	})
}

// unique returns the part of the name of a node that identifies its claim. A claim of this
// package may have one node in "locks" and one in "leases", and the part is the same in both
// names. Curator gives each of its nodes another part.
func unique(key string) string {
	node := path.Base(key)
	return node[:min(len(node), protectionLength)]
}

// Complete reads the data and the session of a node. The session shows whether this package has
// made the node, because the name of such a node begins with the session.
func (s *store) Complete(ctx context.Context, e *ordered.Entry) (bool, error) {
	if e.Order == 0 {
		full := *e
		full, err := adminCall(ctx, s, func(l *link) (ordered.Entry, error) {
			data, stat, err := l.get(l.path(e.Name) + "/" + e.Key)
			if err == nil {
				full.Order, full.Session, full.Note = uint64(stat.Czxid), stat.EphemeralOwner, string(data)
			}
			return full, err
		})
		if err != nil {
			if errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
			return false, err
		}
		*e = full
	}
	node := path.Base(e.Key)
	if e.Label.ID = idOf(sessionPrefix(e.Session), node); e.Label.ID == node {
		e.Label.ID = ""
	}
	return true, nil
}

// get returns the data of a node.
func (l *link) get(path string) (data []byte, stat *zk.Stat, err error) {
	err = l.call(func() error {
		data, stat, err = l.conn.Get(path)
		return err
	})
	return data, stat, err
}

// Remaining is not supported: ZooKeeper does not report the remaining time of a session.
func (s *store) Remaining(context.Context, int64) (time.Duration, error) {
	return 0, fmt.Errorf("ZooKeeper does not report how long a session still lasts: %w", errors.ErrUnsupported)
}

// Show returns the path of the node of an entry, with its session, its czxid and its data.
func (s *store) Show(e ordered.Entry) admin.Key {
	return admin.Key{
		Name: pathOf(s.opts.Root, e.Name) + "/" + e.Key, Type: "node",
		Value: fmt.Sprintf("session → %x\nczxid → %d\ndata → %q", uint64(e.Session), e.Order, e.Note),
	}
}
