package kinds

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Exclusive is a lock of one key: Redisson's RLock, a hash of one field, owner → hold
// count; with the protocol Plain a string, the owner; with Timestamp a string, the Unix
// second at which the lock ends, and beside it a record of who wrote that.
type Exclusive struct {
	*layout.Layout
	Scripts *scripts.Lock
}

// Timestamp is the layout whose locks have a record beside them.
const Timestamp = "timestamp"

// Family is that of all scripts of the layout.
func (f Exclusive) Family() string { return f.Own }

// noted adds the key of the record to keys, if there is one.
func (f Exclusive) noted(p layout.Place, keys ...string) []string {
	if f.Own == Timestamp {
		keys = append(keys, f.Record(p))
	}
	return keys
}

// counted adds a hold count to args, if the layout has one.
func (f Exclusive) counted(holds string, args ...string) []string {
	if f.Own == "" {
		args = append(args, holds)
	}
	return args
}

// AcquireArgs is how many arguments the script acquire has.
const AcquireArgs = 5

// Acquire draws tokens.
func (f Exclusive) Acquire(to Room, p layout.Place, c driver.Claim, ask string, _ []string) wire.Call {
	return wire.Call{
		Script: f.Scripts.Acquire,
		Keys:   f.noted(p, append(to.Keys, p.Lock, f.Mark(p, c.Owner), p.Counter)...),
		Args:   append(f.counted(wire.Count(c.Count), append(to.Args, c.Owner, f.Lease(c.TTL))...), wire.Count(c.Tokens), ask),
	}
}

// Renew needs the key alone.
func (f Exclusive) Renew(to Room, p layout.Place, c driver.Claim) wire.Call {
	return wire.Call{
		Script: f.Scripts.Renew,
		Keys:   f.noted(p, append(to.Keys, p.Lock)...),
		Args:   f.counted(wire.Count(c.Count), append(to.Args, c.Owner, f.Lease(c.TTL))...),
	}
}

// Release of a lock with a record needs two keys, so while a cluster's slot is on the
// move it waits.
func (f Exclusive) Release(to Room, p layout.Place, c driver.Claim, publish []string) wire.Call {
	call := wire.Call{
		Script: f.Scripts.Release,
		Keys:   f.noted(p, append(to.Keys, p.Lock)...),
		Args:   append(to.Args, c.Owner, p.Channel),
	}
	if c.AtLeast > 0 {
		call.Script, call.Args = f.Scripts.Keep, append(call.Args, wire.MS(c.AtLeast))
	}
	call.Args = append(call.Args, publish...)
	return call
}

// Abandon is Release with a mark.
func (f Exclusive) Abandon(p layout.Place, c driver.Claim, publish []string, markTTL time.Duration) wire.Call {
	return marking(f.Release(Room{}, p, c, publish), f.Scripts.Abandon, f.Mark(p, c.Owner), wire.MS(markTTL))
}

// Break leaves a hold alone whose count has changed.
func (f Exclusive) Break(p layout.Place, h admin.Holder, why, markTTL string, publish []string) wire.Call {
	release := f.Release(Room{}, p, driver.Claim{Owner: h.Owner}, publish)
	return marking(release, f.Scripts.Break, f.Mark(p, h.Owner), append(f.counted(strconv.Itoa(h.Holds)), why, markTTL)...)
}

// Explain looks at what is left of c, after it was lost.
func (f Exclusive) Explain(p layout.Place, c driver.Claim) wire.Call {
	return wire.Call{Script: f.Scripts.Explain, Keys: f.noted(p, p.Lock, f.Mark(p, c.Owner), p.Counter)}
}

// Channel is that of the name.
func (f Exclusive) Channel(p layout.Place, _ driver.Claim) string { return p.Channel }

// ReachesAll is true: each waiter has one subscription.
func (f Exclusive) ReachesAll() bool { return true }
