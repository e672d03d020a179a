// Package memhold keeps locks in the memory of one process.
//
// It is for examples, for unit tests of programs that use Holdfast, and for Holdfast's
// own tests. Its locks only exclude users of the same Backend value, not other processes,
// and end with the process. For goroutines of one process a sync.Mutex is better.
//
// A test loses a lock with Backend.Drop, and makes the store fail for one process with a
// Conn. The page docs/testing.md shows how.
//
// Leases use time.Now, and a Backend has no timers and no goroutines. So in a bubble of
// testing/synctest leases use the fake clock, and hours of renewals take milliseconds. A
// Backend belongs to the bubble in which it is first used.
//
// A name is used for one kind at a time: a mutex, a read-write lock, a semaphore or a
// count-down latch. A claim of another kind is refused with driver.ErrMismatch.
package memhold

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/document"
)

// Backend is a store of locks in memory. It implements driver.Backend, the optional
// interfaces of package driver, and admin.Source. Several goroutines may call its methods
// at once.
//
// A call whose context has ended does nothing, and returns an error that is both
// driver.ErrNotExecuted and the error of the context. The Backend frees the memory of a name
// that becomes free. Calls also remove expired leases of other names. A semaphore, and a latch
// that is not open, stay until Drop.
type Backend struct {
	mu         sync.Mutex
	resources  map[string]*resource  // by name; an expired resource stays until it is read
	tombstones map[claimID]tombstone // what is remembered about claims that are gone
	answers    map[callID]answer     // the answers to calls on latches
	last       uint64                // the last fencing token, over all names
	calls      int                   // the number of calls since begin last removed expired data
	log        eventLog

	listeners map[*listener]struct{}
}

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Batcher  = (*Backend)(nil)
	_ driver.Resizer  = (*Backend)(nil)
	_ driver.Latcher  = (*Backend)(nil)
	_ driver.Notifier = (*Backend)(nil)
	_ admin.Source    = (*Backend)(nil)
)

// New returns an empty store.
func New() *Backend {
	return &Backend{
		resources:  make(map[string]*resource),
		tombstones: make(map[claimID]tombstone),
		answers:    make(map[callID]answer),

		listeners: make(map[*listener]struct{}),
	}
}

// Info returns what the store can do. Names and TTLs have no limits.
func (b *Backend) Info() driver.Info {
	return driver.Info{
		Name: "memory",
		Caps: driver.Caps{
			Shared:       true,
			Permits:      true,
			Latches:      true,
			Fair:         true,
			Fencing:      true,
			Wakes:        true,
			ExpiresAlone: true,
			Counts:       true,
			Tombstones:   true,
			AtLeast:      true,
		},
		PlaceTTL: document.Presence,
	}
}

// Try grants c if it can be granted beside the present grants, or if its owner holds the name
// already. A repeated grant never shortens the lease. Try sets the hold count to c.Count and
// reserves a new block of tokens. The last token of a block is the time in microseconds since
// 1970, or more if the block would otherwise begin with an earlier token of any name. So the tokens
// of a process are usually larger than those of earlier processes, too.
//
// A fair claim that is not granted gets a place at the end of the queue, unless NoQueue
// is set. It keeps its place until Release, if it is tried again or renewed at least
// every 5 s. Claims that are not fair overtake it.
//
// If a Release with Indeterminate has ended the claim, Try returns an error that is
// driver.ErrGone. If the name is in use for another kind, it returns driver.ErrMismatch.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if err := ended(ctx); err != nil {
		return driver.Outcome{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.try(c, b.begin())
}

// TryAll tries the claims one after the other, all at the same instant. It returns for each
// claim the result that Try would return.
func (b *Backend) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	answers := make([]driver.Attempt, len(cs))
	err := ended(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	for i, c := range cs {
		if err != nil {
			answers[i].Err = err
			continue
		}
		answers[i].Outcome, answers[i].Err = b.try(c, now)
	}
	return answers
}

func (b *Backend) try(c driver.Claim, now time.Time) (driver.Outcome, error) {
	if m := b.tombstones[idOf(c)]; m.abandoned && now.Before(m.until) {
		return driver.Outcome{}, fmt.Errorf("memhold: claim on %q was given up before this try: %w", c.Name, driver.ErrGone)
	}
	e := b.open(c.Name, now)
	again := e.Held(c.Owner) != nil
	out, err := e.Try(c, now, b.last+1)
	if err != nil {
		return driver.Outcome{}, failed(err)
	}
	b.settle(c.Name, e)
	if !out.Granted {
		out.Ahead = e.ahead(c)
		return out, nil
	}
	b.last = e.Last
	if !again {
		delete(b.tombstones, idOf(c))
	}
	return out, nil
}

// Renew extends the held claims, all at the same instant, and sets their hold counts to
// Claim.Count. It never shortens a lease. It extends the place of a claim in the queue by 5 s.
// For every other claim the result is a *driver.GoneError: driver.ReasonForced if ForceUnlock
// ended the claim shortly before, driver.ReasonDeleted if Drop ended it, driver.ReasonNotOwner
// if another owner holds the name alone, and otherwise driver.ReasonExpired.
func (b *Backend) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	answers := make([]driver.Renewal, len(cs))
	for i, c := range cs {
		answers[i] = b.renew(c, now)
	}
	return answers, nil
}

func (b *Backend) renew(c driver.Claim, now time.Time) driver.Renewal {
	e := b.live(c.Name, now)
	if e == nil {
		return driver.Renewal{Err: b.gone(c, now)}
	}
	validFor, ok := e.Renew(c, now)
	if !ok {
		return driver.Renewal{Err: b.gone(c, now)}
	}
	return driver.Renewal{ValidFor: validFor}
}

// Release ends a claim that is held or in the queue, and notifies the next waiters. If AtLeast
// is set, the name stays taken for that time, and Release does not notify waiters when this
// time ends. If the store has no record of the claim, Release returns a *driver.GoneError, with
// one of the reasons of Renew. If Indeterminate is set, the store refuses each later Try of
// this claim for one TTL, and for at least 5 s.
func (b *Backend) Release(ctx context.Context, c driver.Claim) error {
	if err := ended(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	if c.Indeterminate {
		b.abandon(c, now)
	}
	e := b.live(c.Name, now)
	if e == nil || !e.Release(c, now) {
		return b.gone(c, now)
	}
	b.settle(c.Name, e)
	return nil
}

// ended returns an error if ctx has ended. The error is also driver.ErrNotExecuted, because the
// call has not changed anything yet.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memhold: %w: %w", driver.ErrNotExecuted, err)
	}
	return nil
}
