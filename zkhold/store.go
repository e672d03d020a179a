package zkhold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/ordered"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// store is an ordered.Store. Its sessions are sessions of ZooKeeper. It orders entries by the
// sequence numbers of their nodes.
type store struct {
	servers []string
	opts    Options
	tasks   background.Group // calls that may outlive their callers
	clients background.Group // connections, and the goroutines of calls

	mu     sync.Mutex
	link   *link // the last link; nil before the first
	closed bool

	listenersMu sync.Mutex // guards `listeners`; a goroutine that also needs the mutex of a link locks that one first
	listeners   []chan nodeKey
}

// Open opens a session, or waits for the session that an earlier call has begun to open.
func (s *store) Open(ctx context.Context) (session int64, ttl time.Duration, err error) {
	l, err := s.ready(ctx)
	if err != nil {
		return 0, 0, err
	}
	ttl, err = l.sync(ctx)
	return l.session, ttl, err
}

// ready returns the link of linkOrNew as soon as it is usable. It returns an error if ctx ends
// before that.
func (s *store) ready(ctx context.Context) (*link, error) {
	l, err := s.linkOrNew()
	if err != nil {
		return nil, err
	}
	select {
	case <-l.ready:
		return l, l.endedBy()
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to ZooKeeper: %w", unsent.Error(ctx.Err()))
	}
}

// linkOrNew returns the last link. If there is no link yet, or if the session of the last link
// has ended, linkOrNew makes a new link.
func (s *store) linkOrNew() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.link == nil || s.link.endedBy() != nil {
		s.link = s.connect()
	}
	return s.link, nil
}

func (s *store) close() {
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.close(errClosed)
	}
	_ = s.clients.Wait(context.Background())
}

// linkOf returns the link of a session. It returns an error if the session has ended, or if
// there is no connection now.
func (s *store) linkOf(session int64) (*link, error) {
	l := s.current()
	if l == nil || l.id() != session {
		return nil, errExpired
	}
	return l, l.usable()
}

func (s *store) current() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}

// Extend asks the leader whether the session lives. It need not extend the session, because the
// pings of the client do so.
func (s *store) Extend(ctx context.Context, session int64) (time.Duration, error) {
	l, err := s.linkOf(session)
	if err != nil {
		return 0, err
	}
	return l.sync(ctx)
}

// Has needs no request for a node with a watch: if the node were deleted, the event would have
// come before the answer to the last Extend. It makes requests for the other nodes.
func (s *store) Has(ctx context.Context, session int64, entries []ordered.Entry) ([]bool, error) {
	l, err := s.linkOf(session)
	if err != nil {
		return nil, err
	}
	there, unconfirmed := l.has(entries)
	if len(unconfirmed) > 0 {
		if err := l.watchAgain(ctx, unconfirmed); err != nil {
			return nil, err
		}
		there, unconfirmed = l.has(entries)
	}
	errs := make(chan error, len(unconfirmed))
	for _, key := range unconfirmed {
		l.tasks.Go(func() { errs <- l.verify(ctx, key) })
	}
	for range unconfirmed {
		err = errors.Join(err, <-errs)
	}
	if len(unconfirmed) > 0 {
		there, _ = l.has(entries)
	}
	return there, err
}

// Own returns the nodes of the session that may exist. It makes no request.
func (s *store) Own(_ context.Context, session int64) ([]ordered.Entry, error) {
	l, err := s.linkOf(session)
	if err != nil {
		return nil, err
	}
	return l.own(), nil
}

// Enqueue creates the node, unless the claim has one, and lists the queue.
func (s *store) Enqueue(ctx context.Context, session int64, name string, m ordered.Label, note string, alone bool) ([]ordered.Entry, error) {
	l, err := s.linkOf(session)
	if err != nil {
		return nil, err
	}
	var queue []ordered.Entry
	if m.Kind == ordered.Permit {
		queue, err = l.enqueuePermit(ctx, name, m, note, alone)
	} else {
		queue, err = l.enqueue(ctx, nodeKey{name, "", m.ID}, m, note, alone)
	}
	if err == nil || !isCertain(err) || errors.Is(err, driver.ErrGone) || !l.mayHave(name, m.ID) {
		return queue, err
	}
	// A node may have been made: the error shows only the outcome of the last request.
	if errors.Is(err, driver.ErrMismatch) || errors.Is(err, driver.ErrRefused) {
		if _, failed := s.Remove(ctx, session, name, m); failed == nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, errors.New("a node may have been made: " + err.Error()) // not wrapped: err says that no node was made
}

// Queue lists the queue. The queue has all earlier changes by this client, because the server
// executes the requests of a connection in their order.
func (s *store) Queue(ctx context.Context, name string, _ uint64, named bool) ([]ordered.Entry, error) {
	l := s.current()
	if l == nil {
		return nil, errExpired
	}
	return l.read(ctx, name, named)
}

// Remove waits for the calls for the node that are under way, and then deletes the node. If
// Remove fails, the deletion stays pending. In that case the node is deleted after a later call
// for the node, or when there is a new connection.
func (s *store) Remove(ctx context.Context, session int64, name string, m ordered.Label) (bool, error) {
	l := s.current()
	if l == nil || l.id() != session {
		return false, errExpired
	}
	folders := []string{""}
	if m.Kind == ordered.Permit {
		folders = []string{locksFolder, leasesFolder}
	}
	for _, folder := range folders {
		l.requestDelete(nodeKey{name, folder, m.ID})
	}
	var there bool
	for _, folder := range folders {
		key := nodeKey{name, folder, m.ID}
		found, err := withNode(ctx, l, key, func(n *node) (bool, error) { return l.remove(key, n) })
		if err != nil {
			return false, err
		}
		there = there || found
	}
	return there, nil
}

// Share replaces the node of a writer with the node of a reader.
func (s *store) Share(ctx context.Context, session int64, name string, m ordered.Label) (bool, error) {
	l, err := s.linkOf(session)
	if err != nil {
		return false, err
	}
	key := nodeKey{name, "", m.ID}
	return withNode(ctx, l, key, func(n *node) (bool, error) { return l.share(key, n) })
}

// Watch watches the nodes, all of them with one request.
func (s *store) Watch(ctx context.Context, name string, entries []ordered.Entry, before *ordered.Entry, early func()) (gone bool, err error) {
	l := s.current()
	if l == nil {
		return false, nil
	}
	dir, wake, beforeRemoved := l.path(name)+"/", make(chan error, 1), make(chan error, 1)
	targets := make([]target, 0, len(entries)+1)
	for _, e := range entries {
		targets = append(targets, target{dir + e.Key, wake})
	}
	if before != nil {
		targets = append(targets, target{dir + before.Key, beforeRemoved})
	}
	watches := l.addWatches(targets)
	defer l.removeWatches(watches, targets)
	for {
		select {
		case err := <-wake:
			return err == nil && len(entries) == 1 && l.isDeleted(watches[0]), err
		case err := <-beforeRemoved:
			if err == nil {
				early()
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
