package zkhold

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// A semaphore has two folders below its path, as Curator's InterProcessSemaphoreV2 has. In
// "locks" claims queue for a mutex. The claim that has the mutex makes a node in "leases". It
// has its permit as soon as the number of nodes in "leases" does not exceed the number of
// permits. Then it releases the mutex.
const locksFolder, leasesFolder = "locks/", "leases/"

// kind returns ordered.Permit for a node in a folder of a semaphore. For any other node it
// returns "", because the key does not show the kind.
func (key nodeKey) kind() ordered.Kind {
	if key.folder == "" {
		return ""
	}
	return ordered.Permit
}

// enqueuePermit does what enqueue does, for a permit. If the claim has to wait for the mutex,
// the returned queue also has the claims that wait for the mutex. Their entries look like
// entries of another program, so that they block every claim behind them.
func (l *link) enqueuePermit(ctx context.Context, name string, m ordered.Label, note string, alone bool) (queue []ordered.Entry, err error) {
	if queue, err = l.readPermits(ctx, name); err != nil {
		return nil, err
	}
	mutex, lease := nodeKey{name, locksFolder, m.ID}, nodeKey{name, leasesFolder, m.ID}
	i := ordered.Find(queue, m.ID)
	if i < 0 {
		waiting, err := l.joinFolder(ctx, mutex, ordered.Label{Kind: ordered.Mutex, ID: m.ID}, note, alone)
		if err != nil {
			return nil, err
		}
		if ordered.Find(waiting, m.ID) != 0 {
			return append(queue, foreignEntries(waiting, m)...), nil
		}
	}
	if i < 0 || queue[i].Order == 0 { // there is no node in leases, or its creation was not answered
		if _, err = l.joinFolder(ctx, lease, m, note, false); err != nil {
			return nil, err
		}
		if queue, err = l.readPermits(ctx, name); err != nil {
			return nil, err
		}
	}
	if i = ordered.Find(queue, m.ID); i < 0 {
		return queue, nil
	}
	if err := l.counted(lease, queue[i].Key); err != nil { // a Try that was given up may have made the node
		return nil, err
	}
	if i < ordered.PermitsOf(queue[:i], m) {
		_, err = withNode(ctx, l, mutex, func(n *node) (bool, error) { return l.remove(mutex, n) })
	} else {
		queue[i].Order = 0 // so that the next Try calls enqueuePermit again, and does not only read the queue
	}
	return queue, err
}

// readPermits returns the queue of a name. If the name is used for another kind of lock, too,
// the nodes of that lock are before the permits. So the Engine refuses a permit with
// driver.ErrMismatch.
func (l *link) readPermits(ctx context.Context, name string) ([]ordered.Entry, error) {
	queue, err := l.read(ctx, name, true)
	i := slices.IndexFunc(queue, func(e ordered.Entry) bool { return e.Label.Kind != ordered.Permit })
	if i < 0 {
		return queue, err
	}
	return append(slices.Clone(queue[i:]), queue[:i]...), err
}

// joinFolder returns the nodes of a folder. It first makes a node there, unless the claim has
// one there already. If `alone` is true, it makes no node.
func (l *link) joinFolder(ctx context.Context, key nodeKey, m ordered.Label, note string, alone bool) ([]ordered.Entry, error) {
	return withNode(ctx, l, key, func(n *node) ([]ordered.Entry, error) {
		list := func() ([]ordered.Entry, error) {
			nodes, _, err := l.folder(key.name, key.folder)
			return nodes, err
		}
		if alone {
			return list()
		}
		return l.enterQueue(ctx, key, n, m, note, list)
	})
}

// foreignEntries changes the entries in `waiting` so that they look like entries of other
// programs. Only the entry of m keeps its ID: it gets the Label m, and Order 0.
func foreignEntries(waiting []ordered.Entry, m ordered.Label) []ordered.Entry {
	for i := range waiting {
		if e := &waiting[i]; e.Label.ID == m.ID {
			e.Label, e.Order = m, 0
		} else {
			e.Label = ordered.Label{Kind: ordered.Mutex}
		}
	}
	return waiting
}
