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

// semaphore is Redisson's permit-expirable semaphore: a counter of free permits,
// and a sorted set of the ids of those that are out, by the time they end.
//
// It needs both keys to release a permit, so a cluster slot on the move can hold
// that up: until the slot has arrived or the permit has ended.
type semaphore struct {
	*layout.Layout
	*scripts.Library
}

// Semaphore returns how semaphores with leased permits are kept.
func Semaphore(l *layout.Layout, library *scripts.Library) Form { return &semaphore{l, library} }

func (f *semaphore) Acquire(to Room, p layout.Place, c driver.Claim, ask string, publish []string) wire.Call {
	return wire.Call{
		Script: f.Get("semaphore_acquire"),
		Keys:   append(to.Keys, p.Lock, f.Permits(p), f.Mark(p, c.Owner), p.Counter),
		Args:   append(append(to.Args, layout.PermitID(c.Owner), f.Lease(c.TTL), wire.Count(c.Permits), wire.Count(c.Tokens), f.Channel(p, c), ask), publish...),
	}
}

func (f *semaphore) Renew(to Room, p layout.Place, c driver.Claim) wire.Call {
	return wire.Call{Script: f.Get("semaphore_renew"), Keys: append(to.Keys, f.Permits(p)), Args: append(to.Args, layout.PermitID(c.Owner), f.Lease(c.TTL))}
}

func (f *semaphore) Release(to Room, p layout.Place, c driver.Claim, publish []string) wire.Call {
	return wire.Call{
		Script: f.Get("semaphore_release"),
		Keys:   append(to.Keys, p.Lock, f.Permits(p)),
		Args:   append(append(to.Args, layout.PermitID(c.Owner), f.Channel(p, c)), publish...),
	}
}

func (f *semaphore) Abandon(p layout.Place, c driver.Claim, publish []string, markTTL time.Duration) wire.Call {
	return marking(f.Release(Room{}, p, c, publish), f.Get("semaphore_abandon"), f.Mark(p, c.Owner), wire.MS(markTTL))
}

// channel is that of all semaphores of the name, with leased permits or not.
func (f *semaphore) Channel(p layout.Place, _ driver.Claim) string { return layout.SemaphoreChannel(p) }

func (f *semaphore) ReachesAll() bool { return true }

func (f *semaphore) Family() string { return "semaphore" }

// Break ends a permit. An owner who is not known has no mark, and only learns that
// it is gone.
func (f *semaphore) Break(p layout.Place, h admin.Holder, why, markTTL string, publish []string) wire.Call {
	keys := []string{p.Lock, f.Permits(p)}
	id, hidden := layout.ShownPermit(h.Owner)
	if !hidden {
		id, keys = layout.PermitID(h.Owner), append(keys, f.Mark(p, h.Owner))
	}
	return wire.Call{
		Script: f.Get("semaphore_force"),
		Keys:   keys,
		Args:   append([]string{id, why, markTTL, layout.SemaphoreChannel(p)}, publish...),
	}
}

// Resize sets how many permits the semaphore name has in all, held ones
// included, and wakes waiters. Below what is held nothing is taken away: no new
// permit is given out until enough have come back. Repeating it changes nothing.
// A name that is no semaphore is driver.ErrMismatch.
func (c Counts) Resize(ctx context.Context, name string, permits int) error {
	if permits < 0 {
		return wire.Refused("a semaphore cannot have %d permits", permits)
	}
	f := &semaphore{c.store.Layout, c.store.Library}
	_, err := c.store.Do(ctx, name, f, Step{Script: "semaphore_resize", Number: []string{strconv.Itoa(permits)}, Beside: f.Permits, Publish: true})
	return err
}

// Permits returns how many permits the semaphore name has in all, and how many
// of them are free, at one instant of the server; both are 0 if it does not know
// the name. A permit whose lease has ended is free. free is negative after a
// Resize below what was held. A name that is no semaphore is driver.ErrMismatch.
func (c Counts) Permits(ctx context.Context, name string) (total, free int, err error) {
	f := &semaphore{c.store.Layout, c.store.Library}
	answer, err := c.store.Do(ctx, name, f, Step{Script: "semaphore_count", Beside: f.Permits, MayFail: true, Numbers: 2})
	if err != nil {
		return 0, 0, err
	}
	return int(answer.Numbers[0]), int(answer.Numbers[1]), nil
}
