package memhold

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Inspect returns the holder of name, or none.
func (b *Backend) Inspect(ctx context.Context, name string) ([]driver.Holder, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	r := b.live(name, now)
	if r == nil {
		return nil, nil
	}
	return []driver.Holder{{
		Owner:     r.owner,
		Note:      r.note,
		Holds:     r.holds,
		Remaining: r.expires.Sub(now),
	}}, nil
}

// Break ends the grant of h.Owner on name and wakes those who wait for it. Until
// its lease would have ended, and for at least 5 s, the owner's Renew and
// Release answer driver.Forced, with why in the detail. If h.Owner does not hold
// name any more Break changes nothing and returns driver.ErrGone.
func (b *Backend) Break(ctx context.Context, name string, h driver.Holder, why string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	r := b.live(name, now)
	if r == nil || r.owner != h.Owner {
		return b.gone(driver.Claim{Name: name, Owner: h.Owner}, now)
	}
	b.revoke(name, r, now, driver.Forced, fmt.Sprintf("lock of %q was broken: %s", r.note, why))
	return nil
}

// Drop removes the record of name, as if somebody had deleted it from a store by
// hand, and wakes those who wait for it. It reports whether there was one. It is
// for tests of what a program does when its lock is lost: the holder's Renew and
// Release answer driver.Deleted for the rest of its lease, and for at least 5 s.
func (b *Backend) Drop(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()

	r := b.live(name, now)
	if r == nil {
		return false
	}
	b.revoke(name, r, now, driver.Deleted, "the record was deleted by hand")
	return true
}
