package kinds

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// semaphore is Redisson's permit-expirable semaphore: a counter of free permits, and a sorted
// set of the ids of held permits. The score of an id is the time at which its permit expires.
//
// A release needs both keys. So a migrating slot of a cluster can delay the release, until the
// slot has migrated or the permit has expired.
type semaphore struct {
	*layout.Layout
	*scripts.Library
}

// Semaphore returns the Form of semaphores with leased permits.
func Semaphore(l *layout.Layout, library *scripts.Library) Form { return &semaphore{l, library} }

func (f *semaphore) Acquire(buf Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call {
	return wire.Call{
		Script: f.Get("semaphore_acquire"),
		Keys:   append(buf.Keys, k.Lock, f.Permits(k), f.Tombstone(k, c.Owner), k.Counter),
		Args:   append(append(buf.Args, layout.PermitID(c.Owner), f.Lease(c.TTL), wire.Count(c.Permits), wire.Count(c.Tokens), f.Channel(k, c)), publish...),
	}
}

func (f *semaphore) Renew(buf Buffers, k layout.Keys, c driver.Claim) wire.Call {
	return wire.Call{Script: f.Get("semaphore_renew"), Keys: append(buf.Keys, f.Permits(k)), Args: append(buf.Args, layout.PermitID(c.Owner), f.Lease(c.TTL))}
}

func (f *semaphore) Release(buf Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call {
	return wire.Call{
		Script: f.Get("semaphore_release"),
		Keys:   append(buf.Keys, k.Lock, f.Permits(k)),
		Args:   append(append(buf.Args, layout.PermitID(c.Owner), f.Channel(k, c)), publish...),
	}
}

func (f *semaphore) Abandon(k layout.Keys, c driver.Claim, publish []string, tombstoneTTL time.Duration) wire.Call {
	return withTombstone(f.Release(Buffers{}, k, c, publish), f.Get("semaphore_abandon"), f.Tombstone(k, c.Owner), wire.MS(tombstoneTTL))
}

// Channel implements Kind. Semaphores without leases use the same channel.
func (f *semaphore) Channel(k layout.Keys, _ driver.Claim) string { return layout.SemaphoreChannel(k) }

func (f *semaphore) ReachesAll() bool { return true }

func (f *semaphore) Family() string { return "semaphore" }

// Force implements Form. If the owner of a permit is not known, there is no tombstone, and the
// owner does not learn the reason.
func (f *semaphore) Force(k layout.Keys, h admin.Holder, reason, tombstoneTTL string, publish []string) wire.Call {
	keys := []string{k.Lock, f.Permits(k)}
	id, hidden := layout.ShownPermit(h.Owner)
	if !hidden {
		id, keys = layout.PermitID(h.Owner), append(keys, f.Tombstone(k, h.Owner))
	}
	return wire.Call{
		Script: f.Get("semaphore_force"),
		Keys:   keys,
		Args:   append([]string{id, reason, tombstoneTTL, layout.SemaphoreChannel(k)}, publish...),
	}
}

// Resize sets the total number of permits of the semaphore called name, including held permits,
// and notifies waiters. Resize does not end holds. If more permits are held than the new total,
// the server grants no permit until enough permits are released. A repeated call changes
// nothing. Resize returns driver.ErrMismatch for a name that is not a semaphore.
func (c Counts) Resize(ctx context.Context, name string, permits int) error {
	if permits < 0 {
		return wire.Refused("a semaphore cannot have %d permits", permits)
	}
	f := &semaphore{c.store.Layout, c.store.Library}
	_, err := c.store.Do(ctx, name, f, Step{Script: "semaphore_resize", Number: []string{strconv.Itoa(permits)}, SecondKey: f.Permits, Publish: true})
	return err
}

// Permits returns the total number of permits of the semaphore called name, and the number of
// free permits, at one instant of the server. Both numbers are 0 if the semaphore does not
// exist. A permit whose lease has ended counts as free. The result `free` is negative if a
// Resize has set a total below the number of held permits. Permits returns driver.ErrMismatch
// for a name that is not a semaphore.
func (c Counts) Permits(ctx context.Context, name string) (total, free int, err error) {
	f := &semaphore{c.store.Layout, c.store.Library}
	answer, err := c.store.Do(ctx, name, f, Step{Script: "semaphore_count", SecondKey: f.Permits, MayFail: true, Numbers: 2})
	if err != nil {
		return 0, 0, err
	}
	return int(answer.Numbers[0]), int(answer.Numbers[1]), nil
}
