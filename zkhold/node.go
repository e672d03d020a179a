package zkhold

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// place is where a node of a claim stands: in a folder below the name, "" or ending with
// a slash.
type place struct{ name, folder, id string }

// node is what is known of the node of a claim. Calls about it go one after the other, as
// ZooKeeper executes the requests of a session in their order.
type node struct {
	turn chan struct{} // full while a call is under way, which may change what follows

	// A change of these needs the mutex of the link, too.
	users  int    // who has the turn, and waits for it
	name   string // with the folder; "" if there is none, or its sequence number is not known
	note   string
	order  uint64 // czxid; 0 if it is not known
	made   time.Time
	watch  *watch // of the node itself; nil at first
	unsure bool   // a creation was not answered: only a list says whether there is one
	doomed bool   // it is to be removed
	swept  bool   // it was removed, and nobody knows
}

// settled is how long a node is there before it is watched, as another client may remove it.
// Most locks are over before, and do not pay for that.
const settled = 250 * time.Millisecond

// set changes a node.
func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// doom says that the node of a claim, if there is one, is to be removed, by who ends a call
// about it or, at the latest, when the connection is back.
func (l *link) doom(at place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.nodes[at]; n != nil {
		n.doomed = true
	}
}

// mayHave says that there may be a node of a claim.
func (l *link) mayHave(name, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, folder := range []string{"", locks, leases} {
		if n := l.nodes[place{name, folder, id}]; n != nil && (n.name != "" || n.unsure) {
			return true
		}
	}
	return false
}

// forget takes note that there is no node.
func (n *node) forget() { n.name, n.order, n.watch, n.unsure = "", 0, nil, false }

// enqueue makes a node, unless there is one, and returns the queue. With alone set the
// note of the first is in it, if that is another.
func (l *link) enqueue(ctx context.Context, at place, m ordered.Mark, note string, alone bool) ([]ordered.Entry, error) {
	return with(ctx, l, at, func(n *node) ([]ordered.Entry, error) {
		if alone {
			if queue, err := l.list(at.name); err != nil || len(queue) > 0 && ordered.Find(queue, at.id) < 0 {
				return queue, err
			}
		}
		queue, err := l.enter(ctx, at, n, m, note, func() ([]ordered.Entry, error) { return l.children(at.name) })
		if err == nil && alone {
			queue, err = l.complete(at.name, queue)
		}
		return queue, err
	})
}

// looking lists nodes, those of a claim among them.
type looking func() ([]ordered.Entry, error)

// enter makes a node, unless there is one, and returns what look does, as it is then.
func (l *link) enter(ctx context.Context, at place, n *node, m ordered.Mark, note string, look looking) ([]ordered.Entry, error) {
	queue, err := l.ensure(ctx, at, n, m, note, look)
	if err == nil && ordered.Find(queue, at.id) < 0 { // there was one, or somebody has removed it
		queue, err = look()
	}
	if err != nil {
		return nil, err
	}
	i := ordered.Find(queue, at.id)
	if i < 0 {
		l.set(n.forget)
		return queue, nil
	}
	if err := l.counted(at, queue[i].Key); err != nil {
		return nil, err
	}
	if n.order == 0 { // its creation was not answered
		if err := l.inspect(at, n); err != nil {
			return nil, err
		}
		if n.name == "" {
			return slices.Delete(queue, i, i+1), nil
		}
	}
	queue[i].Order = n.order
	return queue, nil
}

// ensure makes a node, unless there is one. It returns what look did if it made one.
func (l *link) ensure(ctx context.Context, at place, n *node, m ordered.Mark, note string, look looking) ([]ordered.Entry, error) {
	l.set(func() { n.doomed, n.swept, n.note = false, false, note })
	if err := l.search(at, n); err != nil || n.name != "" {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, notExecuted(err)
	}
	return l.create(at, n, m, look)
}

// create makes the node of a claim, and containers above it, and looks. It does not wait
// for the node before it looks: ZooKeeper executes the requests of a session in their
// order.
func (l *link) create(at place, n *node, m ordered.Mark, look looking) ([]ordered.Entry, error) {
	dir := strings.TrimSuffix(l.path(at.name)+"/"+at.folder, "/")
	for {
		l.set(func() { n.unsure = true })
		c := l.announce(dir + "/" + nodeOf(l.session, m))
		var queue []ordered.Entry
		var failed error
		looked := make(chan struct{})
		l.tasks.Go(func() {
			defer close(looked)
			if <-c.sent {
				queue, failed = look()
			}
		})
		var made string
		err := l.call(func() (err error) {
			made, err = l.conn.Create(c.path, []byte(n.note), zk.FlagEphemeralSequential, l.acl())
			return err
		})
		l.answered(c)
		<-looked
		l.set(func() { n.unsure = !isCertain(err) })
		switch {
		case err == nil:
			l.set(func() {
				n.name, n.order, n.made = at.folder+path.Base(made), c.czxid, time.Now()
				l.watchLater(settled)
			})
			return queue, failed
		case !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
		if err := l.contain(dir); err != nil {
			return nil, err
		}
	}
}

// contain makes the containers of a path. One that was empty may go at any time.
func (l *link) contain(dir string) error {
	for i := 1; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		err := l.call(func() error {
			_, err := l.conn.CreateContainer(dir[:i], nil, zk.FlagContainer, l.acl())
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil // the one above has gone: from the beginning
		case err != nil && !errors.Is(err, zk.ErrNodeExists):
			return err
		}
	}
	return nil
}

// inspect looks whether the node is there and of this session, and watches it.
func (l *link) inspect(at place, n *node) error {
	path := l.path(at.name) + "/" + n.name
	w := l.observe([]target{{path: path}})[0]
	var there bool
	var stat *zk.Stat
	err := l.call(func() (err error) {
		there, stat, err = l.conn.Exists(path)
		return err
	})
	switch {
	case err != nil:
		return err
	case !there:
		l.set(n.forget)
		return nil
	case stat.EphemeralOwner != l.session:
		return zk.ErrSessionExpired
	}
	l.set(func() {
		if n.order, n.watch, w.own = uint64(stat.Czxid), w, at; w.fired { // before anybody knew whose it is
			l.lost(at)
		}
	})
	return nil
}

// remove removes the node, and reports whether there was one, though it may have been
// removed before.
func (l *link) remove(at place, n *node) (there bool, err error) {
	if n.swept {
		l.set(func() { n.swept = false })
		return true, nil
	}
	if err := l.search(at, n); err != nil {
		return false, err
	}
	if n.name != "" {
		l.set(func() {
			if n.watch != nil {
				n.watch.own = place{}
			}
		})
		err = l.call(func() error { return l.conn.Delete(l.path(at.name)+"/"+n.name, -1) })
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return false, err
		}
		there = err == nil
	}
	l.set(n.forget)
	return there, nil
}

// search looks for the node after a call about it that was not answered. Without such a
// call there is none that is not known: each session has a link of its own.
func (l *link) search(at place, n *node) error {
	if !n.unsure {
		return nil
	}
	// The server may be another one, which has not yet executed what the first has sent on.
	if err := l.call(func() error { _, err := l.conn.Sync("/"); return err }); err != nil {
		return err
	}
	queue, _, err := l.folder(at.name, at.folder)
	if err != nil {
		return err
	}
	l.set(func() {
		n.name, n.unsure = "", false
		if i := ordered.Find(queue, at.id); i >= 0 {
			n.name = queue[i].Key
		}
	})
	return nil
}

// verify looks whether there is a node, and watches it. If somebody else has removed it
// before, that is notified as it would have been with a watch.
func (l *link) verify(ctx context.Context, at place) error {
	_, err := with(ctx, l, at, func(n *node) (any, error) {
		if err := l.search(at, n); err != nil || n.name == "" {
			return nil, err
		}
		err := l.inspect(at, n)
		if n.name == "" {
			l.lost(at)
		}
		return nil, err
	})
	return err
}

// watchLater has watchNodes called, unless it is about to be. The mutex is held.
func (l *link) watchLater(after time.Duration) {
	if l.later == nil && l.over == nil {
		l.later = time.AfterFunc(after, l.watchNodes)
	}
}

// watchNodes watches the nodes that have been there for a while, and comes back for the
// others.
func (l *link) watchNodes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = nil
	if l.over != nil {
		return
	}
	next := time.Duration(0)
	for at, n := range l.nodes {
		young := settled - time.Since(n.made)
		if n.users > 0 {
			young = max(young, settled/10)
		}
		switch {
		case n.name == "" || n.doomed || n.swept || n.watch != nil:
		case young <= 0:
			l.tasks.Go(func() {
				if errors.Is(l.verify(context.Background(), at), errDisconnected) {
					l.set(func() { l.watchLater(settled) })
				}
			})
		case next == 0 || young < next:
			next = young
		}
	}
	if next > 0 {
		l.watchLater(next)
	}
}

// share makes the node of a writer that of a reader, with its sequence number, as Curator
// does for a reader beside its writer.
func (l *link) share(at place, n *node) (there bool, err error) {
	if err := l.search(at, n); err != nil {
		return false, err
	}
	if m, _, _ := parse(n.name); m.Kind != ordered.Writer {
		return m.Kind == ordered.Reader, nil
	}
	dir := l.path(at.name) + "/"
	reader := strings.Replace(n.name, "__WRIT__", "__READ__", 1)
	l.set(func() { n.unsure = true })
	err = l.call(func() error {
		_, err := l.conn.Multi(
			&zk.CreateRequest{Path: dir + reader, Data: []byte(n.note), Acl: l.acl(), Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: dir + n.name, Version: -1},
		)
		return err
	})
	switch {
	case err == nil:
		l.set(func() { n.name, n.unsure = reader, false })
		return true, nil
	case errors.Is(err, zk.ErrNoNode):
		l.set(n.forget)
		return false, nil
	}
	return false, err
}
