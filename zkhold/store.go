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
)

// store is an ordered.Store: a session is one of ZooKeeper, the order that of sequence
// numbers.
type store struct {
	servers []string
	opts    Options
	tasks   background.Group // calls that may outlive their callers
	clients background.Group // connections, and the goroutines of calls

	mu     sync.Mutex
	link   *link // the last one
	closed bool

	hearing   sync.Mutex // after the mutex of a link
	listeners []chan place
}

// Open opens a session, or goes on with what an earlier call has begun.
func (s *store) Open(ctx context.Context) (session int64, ttl time.Duration, err error) {
	l, err := s.ready(ctx)
	if err != nil {
		return 0, 0, err
	}
	ttl, err = l.sync(ctx)
	return l.session, ttl, err
}

// ready returns the last link, or a new one if that is over, when it can be used.
func (s *store) ready(ctx context.Context) (*link, error) {
	l, err := s.opening()
	if err != nil {
		return nil, err
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to ZooKeeper: %w", notExecuted(ctx.Err()))
	}
	if l.err != nil {
		l.close(l.err)
	}
	return l, l.err
}

// opening returns the last link, or a new one if that is over.
func (s *store) opening() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.link == nil || s.link.isOver() {
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

// at returns the link of a session.
func (s *store) at(session int64) (*link, error) {
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

// Extend asks the leader for the session, which the client's pings extend.
func (s *store) Extend(ctx context.Context, session int64) (time.Duration, error) {
	l, err := s.at(session)
	if err != nil {
		return 0, err
	}
	return l.sync(ctx)
}

// Has says of most nodes that they are there because a watch says so: its event would have
// come before the answer of the leader. It asks for the others.
func (s *store) Has(ctx context.Context, session int64, entries []ordered.Entry) ([]bool, error) {
	l, err := s.at(session)
	if err != nil {
		return nil, err
	}
	there, doubtful := l.has(entries)
	if len(doubtful) > 0 {
		if err := l.watchAgain(ctx, doubtful); err != nil {
			return nil, err
		}
		there, doubtful = l.has(entries)
	}
	errs := make(chan error, len(doubtful))
	for _, at := range doubtful {
		l.tasks.Go(func() { errs <- l.verify(ctx, at) })
	}
	for range doubtful {
		err = errors.Join(err, <-errs)
	}
	if len(doubtful) > 0 {
		there, _ = l.has(entries)
	}
	return there, err
}

// Own returns the nodes that the session has made, as far as is known without a request.
func (s *store) Own(_ context.Context, session int64) ([]ordered.Entry, error) {
	l, err := s.at(session)
	if err != nil {
		return nil, err
	}
	return l.own(), nil
}

// Enqueue creates the node, unless there is one, and lists the queue.
func (s *store) Enqueue(ctx context.Context, session int64, name string, m ordered.Mark, note string, alone bool) ([]ordered.Entry, error) {
	l, err := s.at(session)
	if err != nil {
		return nil, err
	}
	var queue []ordered.Entry
	if m.Kind == ordered.Permit {
		queue, err = l.permit(ctx, name, m, note, alone)
	} else {
		queue, err = l.enqueue(ctx, place{name, "", m.ID}, m, note, alone)
	}
	if err == nil || !isCertain(err) || errors.Is(err, driver.ErrGone) || !l.mayHave(name, m.ID) {
		return queue, err
	}
	// A node was made before the error came, which is certain of what came after.
	if errors.Is(err, driver.ErrMismatch) || errors.Is(err, driver.ErrRefused) {
		if _, failed := s.Remove(ctx, session, name, m); failed == nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, errors.New("a node may have been made: " + err.Error()) // not wrapped: it says that none was
}

// Queue lists the queue. The client's own changes are in it: requests of a connection are
// executed in their order.
func (s *store) Queue(ctx context.Context, name string, _ uint64, named bool) ([]ordered.Entry, error) {
	l := s.current()
	if l == nil {
		return nil, errExpired
	}
	return l.read(ctx, name, named)
}

// Remove deletes the node, after all that is under way about it. If it fails the node is
// deleted later.
func (s *store) Remove(ctx context.Context, session int64, name string, m ordered.Mark) (bool, error) {
	l := s.current()
	if l == nil || l.id() != session {
		return false, errExpired
	}
	folders := []string{""}
	if m.Kind == ordered.Permit {
		folders = []string{locks, leases}
	}
	for _, folder := range folders {
		l.doom(place{name, folder, m.ID})
	}
	var there bool
	for _, folder := range folders {
		at := place{name, folder, m.ID}
		found, err := with(ctx, l, at, func(n *node) (bool, error) { return l.remove(at, n) })
		if err != nil {
			return false, err
		}
		there = there || found
	}
	return there, nil
}

// Share makes the node one of a reader.
func (s *store) Share(ctx context.Context, session int64, name string, m ordered.Mark) (bool, error) {
	l, err := s.at(session)
	if err != nil {
		return false, err
	}
	at := place{name, "", m.ID}
	return with(ctx, l, at, func(n *node) (bool, error) { return l.share(at, n) })
}

// Watch watches the nodes, all of them with one request.
func (s *store) Watch(ctx context.Context, name string, entries []ordered.Entry, before *ordered.Entry, early func()) (gone bool, err error) {
	l := s.current()
	if l == nil {
		return false, nil
	}
	dir, wake, passed := l.path(name)+"/", make(chan error, 1), make(chan error, 1)
	targets := make([]target, 0, len(entries)+1)
	for _, e := range entries {
		targets = append(targets, target{dir + e.Key, wake})
	}
	if before != nil {
		targets = append(targets, target{dir + before.Key, passed})
	}
	watches := l.observe(targets)
	defer l.ignore(watches, targets)
	for {
		select {
		case err := <-wake:
			return err == nil && len(entries) == 1 && l.isDeleted(watches[0]), err
		case err := <-passed:
			if err == nil {
				early()
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
