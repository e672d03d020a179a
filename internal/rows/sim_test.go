package rows_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/sim"
)

// Each process has an engine, and the network is between that and the table.
func TestSimulation(t *testing.T) {
	for name, listens := range map[string]bool{"rows": true, "rows-polled": false} {
		t.Run(name, func(t *testing.T) {
			sim.Seeds(t, func(time.Duration) sim.Store { return &simStore{newTable(), listens} })
		})
	}
}

// simStore is a table behind the network of a simulation.
type simStore struct {
	*table
	listens bool
}

func (s *simStore) Client(l *sim.Link) driver.Backend {
	return &simBackend{sim.Collected{Link: l}, rows.New(&simTable{s.table, l}, rows.Limits{Name: "rows", Listens: s.listens})}
}

// simBackend is the store as one process uses it.
type simBackend struct {
	sim.Collected
	*rows.Engine
}

// Forget ends leases. It keeps the tokens, because the simulation excuses no fault after a
// loss of tokens.
func (s *simStore) Forget(which func() bool) {
	s.change(func() {
		for _, r := range s.rows {
			if which() {
				r.waiters = nil
				r.end()
			}
		}
	})
	s.cut()
}

// Remember keeps the tokens, too: the clock of the next server has passed them.
func (s *simStore) Remember() (forget func()) {
	then := map[string]row{}
	s.change(func() {
		for name, r := range s.rows {
			then[name] = *r
		}
	})
	return func() {
		s.change(func() {
			for name, r := range s.rows {
				before := then[name]
				before.token, before.waiters = r.token, slices.Clone(before.waiters)
				*r = before
			}
		})
		s.cut()
	}
}

func (s *simStore) Force(name string) (ended bool) {
	var owner string
	var token uint64
	s.change(func() {
		if r := s.rows[name]; r != nil {
			owner, token = r.owner, r.token
		}
	})
	ended, err := s.table.Force(context.Background(), name, owner, token, "by hand")
	return ended && err == nil
}

func (s *simStore) Left() (left []string) {
	s.change(func() {
		for name, r := range s.rows {
			if r.owner != "" && r.expires.After(time.Now()) {
				left = append(left, fmt.Sprintf("%s: %s of %s for %v", name, r.owner, r.note, time.Until(r.expires)))
			}
		}
	})
	return left
}

func (s *simStore) Holders(name string) (n int, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rows[name]; r != nil && r.owner != "" && time.Now().Before(r.expires) {
		n = 1
	}
	return n, true
}

// simTable is a table as one process sees it.
type simTable struct {
	*table
	link *sim.Link
}

func (s *simTable) Try(ctx context.Context, claims []driver.Claim) ([]rows.Row, error) {
	all, err := sim.Call(ctx, s.link, func() ([]rows.Row, error) { return s.table.Try(context.Background(), s.link.Claims(claims...)) })
	for i := range all {
		all[i].Remaining = s.link.Back(all[i].Remaining)
	}
	return all, err
}

func (s *simTable) Renew(ctx context.Context, claims []driver.Claim) ([]bool, error) {
	return sim.Call(ctx, s.link, func() ([]bool, error) { return s.table.Renew(context.Background(), s.link.Claims(claims...)) })
}

func (s *simTable) Release(ctx context.Context, claims []driver.Claim) ([]bool, error) {
	return sim.Call(ctx, s.link, func() ([]bool, error) { return s.table.Release(context.Background(), s.link.Claims(claims...)) })
}

func (s *simTable) Read(ctx context.Context, names []string) ([]rows.Row, error) {
	return sim.Call(ctx, s.link, func() ([]rows.Row, error) { return s.table.Read(context.Background(), names) })
}

// Listen ends a moment after a message was lost, as soon as the network notices.
func (s *simTable) Listen(ctx context.Context, live func(), heard func(name, next string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.table.Listen(ctx, live, func(name, next string) {
		s.link.Deliver(func(err error) {
			if err != nil {
				cancel()
			} else if ctx.Err() == nil {
				heard(name, next)
			}
		})
	})
}
