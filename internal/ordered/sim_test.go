package ordered_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
	"github.com/holdfast-go/holdfast/internal/sim"
)

// Each process has an engine and its session; the network is between them and the store.
func TestSimulation(t *testing.T) {
	for name, sure := range map[string]bool{"ordered": false, "ordered-sure": true} {
		t.Run(name, func(t *testing.T) {
			sim.Seeds(t, func(ttl time.Duration) sim.Store {
				s := &simStore{newMemory(ttl)}
				s.sure = sure
				return s
			})
		})
	}
}

// simStore is a memory behind the network of a simulation.
type simStore struct{ *memory }

func (s *simStore) Client(l *sim.Link) driver.Backend {
	return &simBackend{sim.Collected{Link: l}, &backend{ordered.New(&simSession{s.memory, l}), s.memory}}
}

// simBackend is the store as one process uses it.
type simBackend struct {
	sim.Collected
	*backend
}

// Forget ends sessions, and with them all of their claims.
func (s *simStore) Forget(which func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, timer := range s.sessions {
		if which() {
			timer.Stop()
			s.end(id)
		}
	}
}

// Remember returns nil: a majority has what the store acknowledged.
func (s *simStore) Remember() (forget func()) { return nil }

// Force ends the first claim of a queue.
func (s *simStore) Force(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := true
	return s.remove(func(e entry) bool {
		found := first && e.Name == name
		first = first && !found
		return found
	})
}

func (s *simStore) Left() (left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		left = append(left, fmt.Sprintf("%+v", e))
	}
	return left
}

// Holders counts only entries that keep a name for AtLeast. Others may be those of waiters: of
// which one the claim is granted, its process has to find out.
func (s *simStore) Holders(name string) (n int, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.Name == name && strings.HasSuffix(e.Key, " kept") {
			n++
		}
	}
	return n, false
}

// simSession is a memory as one process sees it.
type simSession struct {
	*memory
	link *sim.Link
}

func (s *simSession) Open(ctx context.Context) (id int64, ttl time.Duration, err error) {
	id, err = sim.Call(ctx, s.link, func() (int64, error) {
		id, _, err := s.memory.Open(context.Background())
		return id, err
	})
	return id, s.link.Back(s.ttl), err
}

func (s *simSession) Extend(ctx context.Context, session int64) (time.Duration, error) {
	ttl, err := sim.Call(ctx, s.link, func() (time.Duration, error) { return s.memory.Extend(context.Background(), session) })
	return s.link.Back(ttl), err
}

func (s *simSession) Has(ctx context.Context, session int64, entries []ordered.Entry) ([]bool, error) {
	return sim.Call(ctx, s.link, func() ([]bool, error) { return s.memory.Has(context.Background(), session, entries) })
}

func (s *simSession) Own(ctx context.Context, session int64) ([]ordered.Entry, error) {
	return sim.Call(ctx, s.link, func() ([]ordered.Entry, error) { return s.memory.Own(context.Background(), session) })
}

func (s *simSession) Enqueue(ctx context.Context, session int64, name string, m ordered.Label, note string, alone bool) ([]ordered.Entry, error) {
	return sim.Call(ctx, s.link, func() ([]ordered.Entry, error) {
		return s.memory.Enqueue(context.Background(), session, name, m, note, alone)
	})
}

func (s *simSession) Queue(ctx context.Context, name string, last uint64, named bool) ([]ordered.Entry, error) {
	return sim.Call(ctx, s.link, func() ([]ordered.Entry, error) {
		return s.memory.Queue(context.Background(), name, last, named)
	})
}

func (s *simSession) Remove(ctx context.Context, session int64, name string, m ordered.Label) (bool, error) {
	return sim.Call(ctx, s.link, func() (bool, error) { return s.memory.Remove(context.Background(), session, name, m) })
}

func (s *simSession) Share(ctx context.Context, session int64, name string, m ordered.Label) (bool, error) {
	return sim.Call(ctx, s.link, func() (bool, error) { return s.memory.Share(context.Background(), session, name, m) })
}

func (s *simSession) Keep(ctx context.Context, session int64, name string, m ordered.Label, note string, rest time.Duration) (bool, error) {
	return sim.Call(ctx, s.link, func() (bool, error) {
		return s.memory.Keep(context.Background(), session, name, m, note, s.link.There(rest))
	})
}

func (s *simSession) Watch(ctx context.Context, name string, entries []ordered.Entry, before *ordered.Entry, early func()) (gone bool, err error) {
	if err := s.link.Receive(ctx); err != nil {
		return false, err
	}
	gone, err = s.memory.Watch(ctx, name, entries, before, early)
	if err == nil {
		err = s.link.Receive(ctx)
	}
	return gone && err == nil, err
}
