package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// settleWait is how long the program stays to see its claims confirmed as gone.
const settleWait = 3 * time.Second

// settling is a Backend that knows which claims the store may still hold. The
// library cleans up in the background; a program that ends at once would take
// the background with it, and the lock would stay until its lease ends.
type settling struct {
	driver.Backend

	mu      sync.Mutex
	open    map[string]struct{} // owners
	changed chan struct{}       // closed, and replaced, when one is gone
}

func newSettling(b driver.Backend) *settling {
	return &settling{Backend: b, open: map[string]struct{}{}, changed: make(chan struct{})}
}

// Try notes the claim as open unless the answer is certain.
func (s *settling) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	s.add(c.Owner)
	out, err := s.Backend.Try(ctx, c)
	certain := err == nil && !out.Granted || errors.Is(err, driver.ErrNotSent) || errors.Is(err, driver.ErrMismatch)
	if certain && !c.Unsettled {
		s.remove(c.Owner)
	}
	return out, err
}

// Renew notes the claims that are gone.
func (s *settling) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	renewals, err := s.Backend.Renew(ctx, cs)
	for i, renewal := range renewals {
		if errors.Is(renewal.Err, driver.ErrGone) {
			s.remove(cs[i].Owner)
		}
	}
	return renewals, err
}

// Release notes the claim as gone once that is certain.
func (s *settling) Release(ctx context.Context, c driver.Claim) error {
	err := s.Backend.Release(ctx, c)
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.remove(c.Owner)
	}
	return err
}

func (s *settling) add(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[owner] = struct{}{}
}

func (s *settling) remove(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, owner)
	close(s.changed)
	s.changed = make(chan struct{})
}

// state returns how many claims are open, and what is closed when that changes.
func (s *settling) state() (open int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), s.changed
}

// wait returns when no claim is open, or after limit.
func (s *settling) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		open, changed := s.state()
		if open == 0 {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		}
	}
}
