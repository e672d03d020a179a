package zkhold

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// A semaphore has two folders below its path, as Curator's InterProcessSemaphoreV2: in
// locks claims queue for a mutex, and who has that makes a node in leases. As soon as
// there are no more leases than permits the claim has one, and passes the mutex on.
const locks, leases = "locks/", "leases/"

// kind returns what a claim with a node here asks for, as far as it follows from that.
func (at place) kind() ordered.Kind {
	if at.folder == "" {
		return ""
	}
	return ordered.Permit
}

// permit does for a permit what enqueue does for locks. A waiter for the mutex is an
// entry of another program to those behind it.
func (l *link) permit(ctx context.Context, name string, m ordered.Mark, note string, alone bool) (queue []ordered.Entry, err error) {
	if queue, err = l.readPermits(ctx, name); err != nil {
		return nil, err
	}
	mutex, lease := place{name, locks, m.ID}, place{name, leases, m.ID}
	i := ordered.Find(queue, m.ID)
	if i < 0 {
		waiting, err := l.join(ctx, mutex, ordered.Mark{Kind: ordered.Mutex, ID: m.ID}, note, alone)
		if err != nil {
			return nil, err
		}
		if ordered.Find(waiting, m.ID) != 0 {
			return append(queue, strangers(waiting, m)...), nil
		}
	}
	if i < 0 || queue[i].Order == 0 { // there is none, or its creation was not answered
		if _, err = l.join(ctx, lease, m, note, false); err != nil {
			return nil, err
		}
		if queue, err = l.readPermits(ctx, name); err != nil {
			return nil, err
		}
	}
	if i = ordered.Find(queue, m.ID); i < 0 {
		return queue, nil
	}
	if err := l.counted(lease, queue[i].Key); err != nil { // a try that was given up may have made it
		return nil, err
	}
	if i < ordered.PermitsOf(queue[:i], m) {
		_, err = with(ctx, l, mutex, func(n *node) (bool, error) { return l.remove(mutex, n) })
	} else {
		queue[i].Order = 0 // it asks here again, not for the queue alone
	}
	return queue, err
}

// readPermits is read with the nodes of other kinds before the permits, for whom the name
// is no semaphore.
func (l *link) readPermits(ctx context.Context, name string) ([]ordered.Entry, error) {
	queue, err := l.read(ctx, name, true)
	i := slices.IndexFunc(queue, func(e ordered.Entry) bool { return e.Mark.Kind != ordered.Permit })
	if i < 0 {
		return queue, err
	}
	return append(slices.Clone(queue[i:]), queue[:i]...), err
}

// join makes a node in a folder, unless there is one, and returns the folder's nodes. With
// alone set it makes none.
func (l *link) join(ctx context.Context, at place, m ordered.Mark, note string, alone bool) ([]ordered.Entry, error) {
	return with(ctx, l, at, func(n *node) ([]ordered.Entry, error) {
		look := func() ([]ordered.Entry, error) {
			nodes, _, err := l.folder(at.name, at.folder)
			return nodes, err
		}
		if alone {
			return look()
		}
		return l.enter(ctx, at, n, m, note, look)
	})
}

// strangers makes entries of the nodes that wait for the mutex: claims of other programs,
// but for the one of m.
func strangers(waiting []ordered.Entry, m ordered.Mark) []ordered.Entry {
	for i := range waiting {
		if e := &waiting[i]; e.Mark.ID == m.ID {
			e.Mark, e.Order = m, 0
		} else {
			e.Mark = ordered.Mark{Kind: ordered.Mutex}
		}
	}
	return waiting
}
