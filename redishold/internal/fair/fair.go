// Package fair has the fair lock in Redis, and its waiters, which are notified when they should
// try, or when a release has granted them the lock.
package fair

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	// Presence is how long a waiter in the queue counts as alive after its last try. The core
	// tries at least once a second. A dead waiter delays the next one at most by Presence.
	//
	// Presence is also the longest first lease of a waiter to which a release has granted the
	// lock. That lease begins with the last try of the waiter. All clients of a lock must have
	// the same value.
	Presence = 4 * time.Second

	// DefaultWait is Redisson's default for "fairLockWaitTimeout": how long Redisson waits for
	// one of its waiters that does not respond.
	DefaultWait = 5 * time.Minute
)

// Lock is Redisson's fair lock: the hash of an RLock, a list of waiting owners, and a sorted
// set of their deadlines. Each waiter of Redisson has a channel of its own. A second sorted
// set, which Redisson does not know, has the times until which Holdfast's waiters count as
// alive.
type Lock struct {
	kinds.Exclusive
	*scripts.Library
	Wait       time.Duration // Redisson's "fairLockWaitTimeout", see DefaultWait
	GrantsNext bool          // a release grants the lock to the next waiter; otherwise it only wakes that waiter
}

// Acquire implements kinds.Form. If the lock is busy, the call adds c to the queue, unless
// c.NoQueue is set.
func (f Lock) Acquire(buf kinds.Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call {
	queue, deadlines, alive := f.Queue(k)
	counts := wire.MS(Presence)
	if c.NoQueue {
		counts = "-" + counts
	}
	return wire.Call{
		Script: f.Get("fair_acquire"),
		Keys:   append(buf.Keys, k.Lock, f.Tombstone(k, c.Owner), k.Counter, queue, deadlines, alive),
		Args: append(append(buf.Args,
			c.Owner, f.Lease(c.TTL), wire.Count(c.Count), wire.Count(c.Tokens), counts, wire.MS(f.Wait), k.Channel+":",
		), publish...),
	}
}

// Release implements kinds.Form. The call also grants the lock to the first waiter in the
// queue, or only wakes that waiter.
func (f Lock) Release(buf kinds.Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call {
	queue, deadlines, alive := f.Queue(k)
	lease := "0"
	if f.GrantsNext {
		lease = wire.MS(Presence)
	}
	return wire.Call{
		Script: f.Get("fair_release"),
		Keys:   append(buf.Keys, k.Lock, queue, deadlines, alive, k.Counter),
		Args:   append(append(buf.Args, c.Owner, "0", k.Channel+":", lease), publish...),
	}
}

// Abandon implements kinds.Form.
func (f Lock) Abandon(k layout.Keys, c driver.Claim, publish []string, tombstoneTTL time.Duration) wire.Call {
	call := f.Release(kinds.Buffers{}, k, c, publish)
	call.Source = true // see withTombstone in package kinds
	call.Keys = append(call.Keys, f.Tombstone(k, c.Owner))
	call.Args[1] = wire.MS(tombstoneTTL)
	return call
}

// Channel returns the channel of the waiter for c alone. A release of Redisson wakes the waiter
// on this channel. A release of Holdfast wakes it on the channel that SharedChannel returns.
func (f Lock) Channel(k layout.Keys, c driver.Claim) string { return k.Channel + ":" + c.Owner }

// ReachesAll returns false, because a release notifies only the first waiter in the queue.
func (f Lock) ReachesAll() bool { return false }

// Family implements kinds.Kind.
func (f Lock) Family() string { return "fair" }
