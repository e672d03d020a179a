// Package fair has how a fair lock is kept in Redis, and how waiters for one
// hear that it is their turn, or that they were given the lock.
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
	// Presence is how long a waiter in the queue counts as alive after its
	// last try. The core tries at least once a second, so one that died delays the
	// next by no more than this.
	//
	// It is also for how long a release gives the lock to a waiter, and counted from
	// that waiter's last try. All clients of a lock must agree on it.
	Presence = 4 * time.Second

	// DefaultWait is how long Redisson waits for its own silent waiters, if nobody
	// set its fairLockWaitTimeout.
	DefaultWait = 5 * time.Minute
)

// Lock is Redisson's fair lock: the hash of an RLock, and beside it a list of
// waiting owners with a sorted set of their deadlines. Each waiter of Redisson's
// has a channel of its own. What distinguishes a live waiter of Holdfast from a dead one is a sorted
// set more, of which Redisson knows nothing.
type Lock struct {
	kinds.Exclusive
	*scripts.Library
	Wait  time.Duration // of Redisson's waiters
	Gives bool          // a release gives the lock to the next; else it only wakes
}

// Acquire takes a place in the queue, unless c asks for none.
func (f Lock) Acquire(to kinds.Buffers, k layout.Keys, c driver.Claim, ask string, publish []string) wire.Call {
	queue, deadlines, alive := f.Queue(k)
	counts := wire.MS(Presence)
	if c.NoQueue {
		counts = "-" + counts
	}
	return wire.Call{
		Script: f.Get("fair_acquire"),
		Keys:   append(to.Keys, k.Lock, f.Tombstone(k, c.Owner), k.Counter, queue, deadlines, alive),
		Args: append(append(to.Args,
			c.Owner, f.Lease(c.TTL), wire.Count(c.Count), wire.Count(c.Tokens), counts, wire.MS(f.Wait), k.Channel+":", ask,
		), publish...),
	}
}

// Release gives the lock to the next, or wakes it.
func (f Lock) Release(to kinds.Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call {
	queue, deadlines, alive := f.Queue(k)
	gives := "0"
	if f.Gives {
		gives = wire.MS(Presence)
	}
	return wire.Call{
		Script: f.Get("fair_release"),
		Keys:   append(to.Keys, k.Lock, queue, deadlines, alive, k.Counter),
		Args:   append(append(to.Args, c.Owner, "0", k.Channel+":", gives), publish...),
	}
}

// Abandon is Release that leaves a mark.
func (f Lock) Abandon(k layout.Keys, c driver.Claim, publish []string, markTTL time.Duration) wire.Call {
	call := f.Release(kinds.Buffers{}, k, c, publish)
	call.Source = true // rarely run, and a link that hangs must not bring NOSCRIPT when it is back
	call.Keys = append(call.Keys, f.Tombstone(k, c.Owner))
	call.Args[1] = wire.MS(markTTL)
	return call
}

// Channel is the waiter's own, where Redisson wakes the one whose turn it is. See
// sharedChannel.
func (f Lock) Channel(k layout.Keys, c driver.Claim) string { return k.Channel + ":" + c.Owner }

// ReachesAll is false: a release notifies only the next.
func (f Lock) ReachesAll() bool { return false }

// Family is "fair".
func (f Lock) Family() string { return "fair" }
