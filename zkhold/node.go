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
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// nodeKey identifies a node of a claim. The field `folder` is leasesFolder or locksFolder if
// the node is in that folder of a semaphore. Otherwise it is "".
type nodeKey struct{ name, folder, id string }

// node is what the link knows about the node of a claim. Calls for one node run one after the
// other, so that ZooKeeper executes their requests in this order.
type node struct {
	mutex chan struct{} // full while a call for the node is under way; that call may change the other fields

	// A change of these fields needs the mutex of the link, too.
	users             int    // how many calls have the mutex of the node, or wait for it
	name              string // the name of the node, with the folder; "" if there is no node, or if its sequence number is not known
	note              string
	order             uint64 // czxid; 0 if it is not known
	created           time.Time
	watch             *watch // the watch of the node; nil while there is none
	indeterminate     bool   // a creation was not answered: a list must show whether the node exists
	deletePending     bool   // the node must be deleted
	deletedUnreported bool   // the node was deleted, and no call has reported the deletion yet
}

// watchDelay is the age at which the link begins to watch a node, because another client may
// delete it. Most locks are released earlier, so they need no request for a watch.
const watchDelay = 250 * time.Millisecond

// set runs the function `change` with the mutex of the link.
func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// requestDelete makes the deletion of the node of a claim pending, if there is a node. The next
// call for the node deletes it. After a broken connection, restored deletes it.
func (l *link) requestDelete(key nodeKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.nodes[key]; n != nil {
		n.deletePending = true
	}
}

// mayHave reports whether there may be a node of a claim.
func (l *link) mayHave(name, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, folder := range []string{"", locksFolder, leasesFolder} {
		if n := l.nodes[nodeKey{name, folder, id}]; n != nil && (n.name != "" || n.indeterminate) {
			return true
		}
	}
	return false
}

// forget records that there is no node.
func (n *node) forget() { n.name, n.order, n.watch, n.indeterminate = "", 0, nil, false }

// enqueue makes a node, unless the claim has one, and returns the queue. If `alone` is true, it
// makes a node only if the queue is empty, and the first entry of the returned queue has its
// note.
func (l *link) enqueue(ctx context.Context, key nodeKey, m ordered.Label, note string, alone bool) ([]ordered.Entry, error) {
	return withNode(ctx, l, key, func(n *node) ([]ordered.Entry, error) {
		if alone {
			if queue, err := l.list(key.name); err != nil || len(queue) > 0 && ordered.Find(queue, key.id) < 0 {
				return queue, err
			}
		}
		queue, err := l.enterQueue(ctx, key, n, m, note, func() ([]ordered.Entry, error) { return l.children(key.name) })
		if err == nil && alone {
			queue, err = l.complete(key.name, queue)
		}
		return queue, err
	})
}

// listFunc returns the entries of the folder in which the node of a claim is, or would be.
type listFunc func() ([]ordered.Entry, error)

// enterQueue makes a node, unless the claim has one. It returns what the function `list`
// returns after that.
func (l *link) enterQueue(ctx context.Context, key nodeKey, n *node, m ordered.Label, note string, list listFunc) ([]ordered.Entry, error) {
	queue, err := l.ensureNode(ctx, key, n, m, note, list)
	if err == nil && ordered.Find(queue, key.id) < 0 { // `list` was not called yet, or the node was deleted
		queue, err = list()
	}
	if err != nil {
		return nil, err
	}
	i := ordered.Find(queue, key.id)
	if i < 0 {
		l.set(n.forget)
		return queue, nil
	}
	if err := l.counted(key, queue[i].Key); err != nil {
		return nil, err
	}
	if n.order == 0 { // the creation of the node was not answered
		if err := l.confirm(key, n); err != nil {
			return nil, err
		}
		if n.name == "" {
			return slices.Delete(queue, i, i+1), nil
		}
	}
	queue[i].Order = n.order
	return queue, nil
}

// ensureNode makes a node, unless the claim has one. If it makes a node, it returns what the
// function `list` returns. If the claim has a node already, the returned queue is nil.
func (l *link) ensureNode(ctx context.Context, key nodeKey, n *node, m ordered.Label, note string, list listFunc) ([]ordered.Entry, error) {
	l.set(func() { n.deletePending, n.deletedUnreported, n.note = false, false, note })
	if err := l.resolve(key, n); err != nil || n.name != "" {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, unsent.Error(err)
	}
	return l.create(key, n, m, list)
}

// create makes the node of a claim, and the containers above it. It calls the function `list`
// as soon as the request to create the node is sent. It need not wait for the reply to that
// request, because ZooKeeper executes the requests of a session in their order.
func (l *link) create(key nodeKey, n *node, m ordered.Label, list listFunc) ([]ordered.Entry, error) {
	dir := strings.TrimSuffix(l.path(key.name)+"/"+key.folder, "/")
	for {
		l.set(func() { n.indeterminate = true })
		c := l.beginCreation(dir + "/" + nodeOf(l.session, m))
		var queue []ordered.Entry
		var failed error
		listed := make(chan struct{})
		l.tasks.Go(func() {
			defer close(listed)
			if <-c.sent {
				queue, failed = list()
			}
		})
		var made string
		err := l.call(func() (err error) {
			made, err = l.conn.Create(c.path, []byte(n.note), zk.FlagEphemeralSequential, l.acl())
			return err
		})
		l.endCreation(c)
		<-listed
		l.set(func() { n.indeterminate = !isCertain(err) })
		switch {
		case err == nil:
			l.set(func() {
				n.name, n.order, n.created = key.folder+path.Base(made), c.czxid, time.Now()
				l.watchLater(watchDelay)
			})
			return queue, failed
		case !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
		if err := l.makeContainers(dir); err != nil {
			return nil, err
		}
	}
}

// makeContainers makes the containers of a path. ZooKeeper may remove an empty container at any
// time.
func (l *link) makeContainers(dir string) error {
	for i := 1; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		err := l.call(func() error {
			_, err := l.conn.CreateContainer(dir[:i], nil, zk.FlagContainer, l.acl())
			if errors.Is(err, zk.ErrNoAuth) { // also if the node exists
				if there, _, failed := l.conn.Exists(dir[:i]); failed != nil || there {
					return failed
				}
			}
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil // the container above was removed: the caller begins again
		case err != nil && !errors.Is(err, zk.ErrNodeExists):
			return err
		}
	}
	return nil
}

// confirm watches the node, and checks that it exists and belongs to this session. If the node
// does not exist, it records that and returns nil.
func (l *link) confirm(key nodeKey, n *node) error {
	path := l.path(key.name) + "/" + n.name
	w := l.addWatches([]target{{path: path}})[0]
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
		if n.order, n.watch, w.claim = uint64(stat.Czxid), w, key; w.fired { // the event came before w.claim was set
			l.onRemoved(key)
		}
	})
	return nil
}

// remove deletes the node, and reports whether it existed. If an earlier call deleted the node,
// and no call has reported that yet, remove reports true.
func (l *link) remove(key nodeKey, n *node) (there bool, err error) {
	if n.deletedUnreported {
		l.set(func() { n.deletedUnreported = false })
		return true, nil
	}
	if err := l.resolve(key, n); err != nil {
		return false, err
	}
	if n.name != "" {
		l.set(func() {
			if n.watch != nil {
				n.watch.claim = nodeKey{}
			}
		})
		err = l.call(func() error { return l.conn.Delete(l.path(key.name)+"/"+n.name, -1) })
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return false, err
		}
		there = err == nil
	}
	l.set(n.forget)
	return there, nil
}

// resolve finds out whether the node exists, if a call for the node was not answered. If all
// calls were answered, the link knows already whether the node exists, because only this link
// makes nodes in its session.
func (l *link) resolve(key nodeKey, n *node) error {
	if !n.indeterminate {
		return nil
	}
	// The connection may lead to another server now. That server may not yet have executed the
	// requests that the first server forwarded. Sync waits until it has.
	if err := l.call(func() error { _, err := l.conn.Sync("/"); return err }); err != nil {
		return err
	}
	queue, _, err := l.folder(key.name, key.folder)
	if err != nil {
		return err
	}
	l.set(func() {
		n.name, n.indeterminate = "", false
		if i := ordered.Find(queue, key.id); i >= 0 {
			n.name = queue[i].Key
		}
	})
	return nil
}

// verify checks whether the node exists, and watches it. If another program has deleted the
// node, verify notifies listeners as the watch would have done.
func (l *link) verify(ctx context.Context, key nodeKey) error {
	_, err := withNode(ctx, l, key, func(n *node) (any, error) {
		if err := l.resolve(key, n); err != nil || n.name == "" {
			return nil, err
		}
		err := l.confirm(key, n)
		if n.name == "" {
			l.onRemoved(key)
		}
		return nil, err
	})
	return err
}

// watchLater schedules a call of watchNodes after the given time, unless a call is scheduled
// already. The caller holds the mutex.
func (l *link) watchLater(after time.Duration) {
	if l.watchTimer == nil && l.ended == nil {
		l.watchTimer = time.AfterFunc(after, l.watchNodes)
	}
}

// watchNodes watches the nodes that have existed for watchDelay. For younger nodes it schedules
// another call of watchNodes.
func (l *link) watchNodes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchTimer = nil
	if l.ended != nil {
		return
	}
	next := time.Duration(0)
	for key, n := range l.nodes {
		young := watchDelay - time.Since(n.created)
		if n.users > 0 {
			young = max(young, watchDelay/10)
		}
		switch {
		case n.name == "" || n.deletePending || n.deletedUnreported || n.watch != nil:
		case young <= 0:
			l.tasks.Go(func() {
				if errors.Is(l.verify(context.Background(), key), errDisconnected) {
					l.set(func() { l.watchLater(watchDelay) })
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

// share replaces the node of a writer with a node of a reader that has the same sequence
// number. Curator does so, too, for a reader beside its writer. `there` reports whether the
// node existed.
func (l *link) share(key nodeKey, n *node) (there bool, err error) {
	if err := l.resolve(key, n); err != nil {
		return false, err
	}
	if m, _, _ := parse(n.name); m.Kind != ordered.Writer {
		return m.Kind == ordered.Reader, nil
	}
	dir := l.path(key.name) + "/"
	reader := strings.Replace(n.name, "__WRIT__", "__READ__", 1)
	l.set(func() { n.indeterminate = true })
	err = l.call(func() error {
		_, err := l.conn.Multi(
			&zk.CreateRequest{Path: dir + reader, Data: []byte(n.note), Acl: l.acl(), Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: dir + n.name, Version: -1},
		)
		return err
	})
	switch {
	case err == nil:
		l.set(func() { n.name, n.indeterminate = reader, false })
		return true, nil
	case errors.Is(err, zk.ErrNoNode):
		l.set(n.forget)
		return false, nil
	}
	return false, err
}
