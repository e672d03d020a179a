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

// Exclusive is an exclusive lock. In Redisson's layout it is the RLock: a hash with one
// field, owner → hold count. In the layout Plain it is a string, the owner. In the layout
// Timestamp it is a string, the Unix second at which the lock ends, with a record of the
// owner as a second key.
type Exclusive struct {
	*layout.Layout
	Scripts *scripts.Lock
}

// Timestamp is the name of the layout whose locks have a record.
const Timestamp = "timestamp"

// Family implements Kind.
func (f Exclusive) Family() string { return f.Name }

// withRecord returns `keys` with the key of the record, if the layout has records.
func (f Exclusive) withRecord(k layout.Keys, keys ...string) []string {
	if f.Name == Timestamp {
		keys = append(keys, f.Record(k))
	}
	return keys
}

// withCount returns `args` with the hold count `holds`, if the layout has hold counts.
func (f Exclusive) withCount(holds string, args ...string) []string {
	if f.Name == "" {
		args = append(args, holds)
	}
	return args
}

// AcquireArgs is the number of arguments of acquire.lua, without those for the message that the
// lock is taken.
const AcquireArgs = 4

// Acquire implements Form.
func (f Exclusive) Acquire(buf Buffers, k layout.Keys, c driver.Claim, _ []string) wire.Call {
	return wire.Call{
		Script: f.Scripts.Acquire,
		Keys:   f.withRecord(k, append(buf.Keys, k.Lock, f.Tombstone(k, c.Owner), k.Counter)...),
		Args:   append(f.withCount(wire.Count(c.Count), append(buf.Args, c.Owner, f.Lease(c.TTL))...), wire.Count(c.Tokens)),
	}
}

// Renew implements Form.
func (f Exclusive) Renew(buf Buffers, k layout.Keys, c driver.Claim) wire.Call {
	return wire.Call{
		Script: f.Scripts.Renew,
		Keys:   f.withRecord(k, append(buf.Keys, k.Lock)...),
		Args:   f.withCount(wire.Count(c.Count), append(buf.Args, c.Owner, f.Lease(c.TTL))...),
	}
}

// Release implements Form. For a lock with a record, the call has two keys, so a migrating slot
// of a cluster delays the release.
func (f Exclusive) Release(buf Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call {
	call := wire.Call{
		Script: f.Scripts.Release,
		Keys:   f.withRecord(k, append(buf.Keys, k.Lock)...),
		Args:   append(buf.Args, c.Owner, k.Channel),
	}
	if c.AtLeast > 0 {
		call.Script, call.Args = f.Scripts.Keep, append(call.Args, wire.MS(c.AtLeast))
	}
	call.Args = append(call.Args, publish...)
	return call
}

// Abandon implements Form.
func (f Exclusive) Abandon(k layout.Keys, c driver.Claim, publish []string, tombstoneTTL time.Duration) wire.Call {
	return withTombstone(f.Release(Buffers{}, k, c, publish), f.Scripts.Abandon, f.Tombstone(k, c.Owner), wire.MS(tombstoneTTL))
}

// Force implements Form. The call does not end a hold whose hold count has changed.
func (f Exclusive) Force(k layout.Keys, h admin.Holder, reason, tombstoneTTL string, publish []string) wire.Call {
	release := f.Release(Buffers{}, k, driver.Claim{Owner: h.Owner}, publish)
	return withTombstone(release, f.Scripts.Force, f.Tombstone(k, h.Owner), append(f.withCount(strconv.Itoa(h.Holds)), reason, tombstoneTTL)...)
}

// Explain returns the call that finds out why c was lost.
func (f Exclusive) Explain(k layout.Keys, c driver.Claim) wire.Call {
	return wire.Call{Script: f.Scripts.Explain, Keys: f.withRecord(k, k.Lock, f.Tombstone(k, c.Owner), k.Counter)}
}

// Channel implements Kind.
func (f Exclusive) Channel(k layout.Keys, _ driver.Claim) string { return k.Channel }

// ReachesAll returns true, because all waiters of a name have the same channel.
func (f Exclusive) ReachesAll() bool { return true }
