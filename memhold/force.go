package memhold

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// ForceUnlock ends the grant of h.Owner on the lock `name` and notifies waiters. Until the
// lease would have ended, and for at least 5 s, Renew and Release of the owner return
// driver.ReasonForced, with the given reason in the detail. If h.Owner does not hold the lock
// any more, ForceUnlock changes nothing and returns driver.ErrGone.
func (b *Backend) ForceUnlock(ctx context.Context, name string, h admin.Holder, why string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()

	if e := b.live(name, now); e != nil {
		if g, ok := e.End(h.Owner, now); ok {
			b.revoked(name, g, now, driver.ReasonForced, fmt.Sprintf("lock of %q was broken: %s", g.Note, why))
			m := b.tombstones[claimID{name, h.Owner}]
			m.why = why
			b.tombstones[claimID{name, h.Owner}] = m
			b.settle(name, e)
			return nil
		}
	}
	return b.gone(driver.Claim{Name: name, Owner: h.Owner}, now)
}

// ForceReasons returns the reasons that were given to ForceUnlock, in the order of `over`. A
// reason is "" for a hold that ForceUnlock did not end, or when Renew and Release of the owner
// do not return the reason any more.
func (b *Backend) ForceReasons(ctx context.Context, over []admin.Ended) ([]string, error) {
	why := make([]string, len(over))
	if err := ended(ctx); err != nil {
		return why, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	for i, e := range over {
		if m := b.tombstones[claimID{e.Name, e.Owner}]; now.Before(m.until) {
			why[i] = m.why
		}
	}
	return why, nil
}

// Drop deletes all data of the name, as if an operator had deleted them in a store: grants, the
// queue, the permits of a semaphore, the count of a latch. It notifies waiters. It returns
// false if there were no data. Use it in tests of a lost lock: Renew and Release of the holders
// return driver.ReasonDeleted for the rest of their lease, and for at least 5 s.
func (b *Backend) Drop(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()

	e := b.live(name, now)
	if e == nil {
		return false
	}
	for _, g := range e.Clear(now) {
		b.revoked(name, g, now, driver.ReasonDeleted, "the record was deleted by hand")
	}
	b.settle(name, e)
	return true
}
