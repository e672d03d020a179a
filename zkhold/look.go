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

// scanPage is how many nodes a list asks for at the same time.
const scanPage = 100

var _ ordered.Viewer = (*store)(nil)

// view runs call for people, on a session that may be a new one.
func view[T any](ctx context.Context, s *store, call func(l *link) (T, error)) (T, error) {
	l, err := s.ready(ctx)
	if err != nil {
		var none T
		return none, err
	}
	l.looked()
	return do(ctx, &l.tasks, func() (T, error) {
		l.viewing(1)
		defer l.viewing(-1)
		value, err := call(l)
		return value, errorOf(err)
	})
}

// Names walks the tree below the root, but for what cannot be part of a name with the
// prefix. Nodes that may not be read are passed over, until the end.
func (s *store) Names(ctx context.Context, prefix string, b *budget.Budget) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		var hidden error
		for todo := []folder{{path: s.opts.Root}}; len(todo) > 0; {
			n, err := b.Page(ctx, min(scanPage, len(todo)))
			if err != nil {
				yield(nil, err)
				return
			}
			b.Spent(n - 1)
			page := slices.Clone(todo[len(todo)-n:])
			todo = todo[:len(todo)-n]
			if _, err = view(ctx, s, func(l *link) (any, error) { return nil, l.open(page) }); err != nil {
				yield(nil, err)
				return
			}
			var names []string
			for _, f := range page {
				if f.err != nil && !errors.Is(f.err, zk.ErrNoNode) {
					hidden = errorOf(f.err)
				}
				found, below := f.sort(s.opts.Root, prefix)
				names, todo = append(names, found...), append(todo, below...)
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

// folder is a node in a walk, and what is in it.
type folder struct {
	path  string
	part  string // of the semaphore above it: leases or locks
	of    string // the name of that, unless it was found before
	nodes []string
	err   error
}

// open asks for what is in the folders. It returns an error if it cannot go on.
func (l *link) open(page []folder) error {
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

// sort returns the names that are in use as f shows, and the nodes to look at further. A
// node is a name if there are claims below it, or permits in the folder for them. The
// folders of a semaphore are no names of their own.
func (f *folder) sort(root, prefix string) (names []string, below []folder) {
	name, named := nameOf(root, f.path)
	var own bool
	for _, node := range f.nodes {
		m, _, ok := parse(node)
		switch {
		case ok && f.part == leases && m.Kind == ordered.Permit:
			if strings.HasPrefix(f.of, prefix) && f.of != "" {
				names, f.of = append(names, f.of), ""
			}
		case ok:
			own = own || named && f.part != locks
		default:
			below = append(below, folder{path: f.path + "/" + node})
		}
	}
	if own && strings.HasPrefix(name, prefix) {
		names = append(names, name)
	}
	semaphore := named && slices.Contains(f.nodes, path.Dir(leases))
	for i := range below {
		switch part := path.Base(below[i].path) + "/"; {
		case semaphore && part == leases && !own:
			below[i].part, below[i].of = part, name
		case semaphore && (part == leases || part == locks):
			below[i].part = part
		}
	}
	return names, slices.DeleteFunc(below, func(next folder) bool {
		at, ok := nameOf(root, next.path)
		return !ok || !strings.HasPrefix(at, prefix) && !strings.HasPrefix(prefix, at+"/")
	})
}

// Look lists the queue. Behind permits it has who queues for one, but for those that have
// a node there already.
func (s *store) Look(ctx context.Context, name string) ([]ordered.Entry, error) {
	return view(ctx, s, func(l *link) ([]ordered.Entry, error) {
		queue, err := l.list(name)
		if err != nil || len(queue) == 0 || queue[0].Mark.Kind != ordered.Permit {
			return queue, err
		}
		waiting, _, err := l.folder(name, locks)
		for _, e := range waiting {
			if e.Mark.Kind == ordered.Mutex && !slices.ContainsFunc(queue, func(p ordered.Entry) bool { return unique(p.Key) == unique(e.Key) }) {
				queue = append(queue, e)
			}
		}
		return queue, err
	})
}

// unique is what distinguishes the nodes of a claim from others, in whichever folder: in Curator
// each node has its own.
func unique(key string) string {
	node := path.Base(key)
	return node[:min(len(node), ownLength)]
}

// Complete asks for the data and the session of a node. The session says whether the name
// of the node is one that this package makes.
func (s *store) Complete(ctx context.Context, e *ordered.Entry) (bool, error) {
	if e.Order == 0 {
		full := *e
		full, err := view(ctx, s, func(l *link) (ordered.Entry, error) {
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
	if e.Mark.ID = idOf(e.Session, node); e.Mark.ID == node {
		e.Mark.ID = ""
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

// Rest is not supported: ZooKeeper does not say what is left of a session.
func (s *store) Rest(context.Context, int64) (time.Duration, error) {
	return 0, fmt.Errorf("ZooKeeper does not say what is left of a session: %w", errors.ErrUnsupported)
}

// Show returns the node of an entry.
func (s *store) Show(e ordered.Entry) admin.Key {
	return admin.Key{
		Name: pathOf(s.opts.Root, e.Name) + "/" + e.Key, Type: "node",
		Value: fmt.Sprintf("session → %x\nczxid → %d\ndata → %q", uint64(e.Session), e.Order, e.Note),
	}
}
