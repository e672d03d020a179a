// Package memhold keeps locks in the memory of one process.
//
// It is for examples, for unit tests of programs that use Holdfast, and for
// Holdfast's own tests. It keeps nothing apart that does not share the same
// Backend value: it is no lock between processes, and it forgets everything
// when the process ends. For goroutines of one process a sync.Mutex is the
// better lock.
//
// Leases run by time.Now, and no timer or goroutine runs behind a Backend. In a
// bubble of testing/synctest they therefore follow the fake clock: hours of
// renewals pass in milliseconds. A Backend belongs to the bubble in which it is
// first used.
//
// Only exclusive claims are served so far.
package memhold

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Backend is a store of locks in memory. It implements driver.Backend,
// driver.Inspector and driver.Breaker. Its methods may be called from several
// goroutines at once.
//
// A call whose context has ended does nothing and returns an error that is both
// driver.ErrNotSent and the context's error. Memory is given back as names
// become free; lapsed records are dropped by later calls, on any name.
type Backend struct {
	mu      sync.Mutex
	records map[string]*record // by name; lapsed ones until somebody looks
	marks   map[claimID]mark   // what is remembered of claims that are gone
	last    uint64             // the last fencing token given, over all names
	calls   int                // since the last sweep
}

var (
	_ driver.Backend   = (*Backend)(nil)
	_ driver.Inspector = (*Backend)(nil)
	_ driver.Breaker   = (*Backend)(nil)
)

// New returns an empty store.
func New() *Backend {
	return &Backend{
		records: make(map[string]*record),
		marks:   make(map[claimID]mark),
	}
}

// Info describes the store. It knows no bounds on names and TTLs.
func (b *Backend) Info() driver.Info {
	return driver.Info{
		Name: "memory",
		Caps: driver.Caps{
			Fencing:      true,
			Wakes:        true,
			ExpiresAlone: true,
			Counts:       true,
			Linearizable: true,
		},
	}
}

// Try grants c if its name is free or held by c's owner already. A repeated
// grant never shortens the lease; it sets the hold count to c.Holds and draws a
// new block of tokens. The first token of a block is the larger of the time in
// microseconds since 1970 and the last token given for any name plus one, so
// tokens usually rise from one process to the next as well.
//
// A try of a claim that Release ended with Unsettled set is refused with an
// error that is driver.ErrGone.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if err := ended(ctx); err != nil {
		return driver.Outcome{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	if m := b.marks[idOf(c)]; m.abandoned && now.Before(m.until) {
		return driver.Outcome{}, fmt.Errorf("memhold: claim on %q was given up before this try: %w", c.Name, driver.ErrGone)
	}
	r := b.live(c.Name, now)
	switch {
	case r == nil:
		r = &record{owner: c.Owner, ended: make(chan struct{})}
		b.records[c.Name] = r
		delete(b.marks, idOf(c))
	case r.owner != c.Owner:
		return driver.Outcome{
			RetryAfter: r.expires.Sub(now),
			Holder:     r.note,
			Ahead:      ahead(r.ended),
		}, nil
	}
	r.note = c.Note
	r.extend(c, now)
	return driver.Outcome{
		Granted:  true,
		Token:    b.reserve(c.Tokens, now),
		ValidFor: r.expires.Sub(now),
	}, nil
}

// Renew extends the claims that are held, all at the same instant, and sets
// their hold counts to Claim.Holds. It never shortens a lease. Every other claim
// is answered with a *driver.GoneError: driver.Forced or driver.Deleted if it
// ended so a short while ago, driver.NotOwner if another owner holds the name,
// else driver.Expired.
func (b *Backend) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	answers := make([]driver.Renewal, len(cs))
	for i, c := range cs {
		r := b.live(c.Name, now)
		if r == nil || r.owner != c.Owner {
			answers[i].Err = b.gone(c, now)
			continue
		}
		r.extend(c, now)
		answers[i].ValidFor = r.expires.Sub(now)
	}
	return answers, nil
}

// Release ends the claim and wakes those who wait for its name. If nothing of it
// is left it returns a *driver.GoneError, with the reasons of Renew. Where
// Unsettled is set, tries of the same claim are refused for the next TTL, and
// for at least 5 s.
func (b *Backend) Release(ctx context.Context, c driver.Claim) error {
	if err := ended(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	if c.Unsettled {
		b.abandon(c, now)
	}
	r := b.live(c.Name, now)
	if r == nil || r.owner != c.Owner {
		return b.gone(c, now)
	}
	b.end(c.Name, r)
	return nil
}

// reserve draws n consecutive tokens and returns the first.
func (b *Backend) reserve(n int, now time.Time) uint64 {
	first := max(b.last+1, uint64(max(now.UnixMicro(), 1)))
	b.last = first + uint64(max(n, 1)) - 1
	return first
}

// ended returns an error if ctx has ended. Nothing has been done yet, and the
// error says so.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memhold: %w: %w", driver.ErrNotSent, err)
	}
	return nil
}
