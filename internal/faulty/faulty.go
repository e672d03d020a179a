// Package faulty is a store in memory whose answers a test can replace.
package faulty

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// Store is a store whose answers a test can replace. The fields OnTry, OnRenew and OnRelease
// are functions that answer in place of the methods. If such a function is nil, the call goes
// to Backend. While the store is in use, a test must use Change to change the functions.
type Store struct {
	*memhold.Backend
	Tries, Renews atomic.Int64 // how many calls of Try and of Renew there were

	mu        sync.Mutex
	OnTry     func(ctx context.Context, c driver.Claim) (driver.Outcome, error)
	OnRenew   func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error)
	OnRelease func(ctx context.Context, c driver.Claim) error
}

// New returns a store without a fault.
func New() *Store { return &Store{Backend: memhold.New()} }

// Change runs fn, which may change the functions of the store.
func (s *Store) Change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// Try calls OnTry, or Backend.Try if OnTry is nil.
func (s *Store) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	s.Tries.Add(1)
	return chosen(s, &s.OnTry, s.Backend.Try)(ctx, c)
}

// Renew calls OnRenew, or Backend.Renew if OnRenew is nil.
func (s *Store) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	s.Renews.Add(1)
	return chosen(s, &s.OnRenew, s.Backend.Renew)(ctx, cs)
}

// Release calls OnRelease, or Backend.Release if OnRelease is nil.
func (s *Store) Release(ctx context.Context, c driver.Claim) error {
	s.mu.Lock()
	release := s.OnRelease
	s.mu.Unlock()
	if release != nil {
		return release(ctx, c)
	}
	return s.Backend.Release(ctx, c)
}

// StartRelease returns a function that releases c. That function returns -1 as the number of
// other claims that wait, because it does not know this number.
func (s *Store) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	return func() (int, error) { return -1, s.Release(ctx, c) }
}

// chosen returns the function to which the pointer `on` points. If that function is nil, it
// returns the function `sound`.
func chosen[A, R any](s *Store, on *func(context.Context, A) (R, error), sound func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *on != nil {
		return *on
	}
	return sound
}

// Hang waits until ctx ends, and returns ctx's error.
func Hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
