package kinds

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// ReadWrite is Redisson's read-write lock. Its hash has a field "mode", a field owner → hold
// count for each reader, and a field owner:write for the writer. Each read hold also has a
// timeout key, whose TTL is the lease, so that live readers differ from dead ones. An owner of
// Holdfast has only one timeout key, with the number 1, for all its holds. An owner of Redisson
// has one timeout key for each of its holds.
//
// In read mode no reader is refused, even if writers wait: the layout has no key for waiting
// writers.
//
// The names of the timeout keys of other readers are only known after reading the lock, and a
// script only uses keys that are among its KEYS. So a writer that finds readers makes a second
// call, with their timeout keys (AcquireBeside). After a release that leaves readers, a second
// call shortens the TTL of the lock to their longest lease (Trim).
type ReadWrite struct {
	*layout.Layout
	*scripts.Library

	plain Exclusive // renews the write side
}

// NewReadWrite returns the Form of read-write locks. It renews the write side of a lock as `plain`
// renews an exclusive lock.
func NewReadWrite(plain Exclusive, library *scripts.Library) *ReadWrite {
	return &ReadWrite{plain.Layout, library, plain}
}

// Acquire implements Form. In the call of a writer, the script replies with the readers if there
// are any.
func (f *ReadWrite) Acquire(buf Buffers, k layout.Keys, c driver.Claim, _ []string) wire.Call {
	keys := append(buf.Keys, k.Lock, f.Tombstone(k, c.Owner), k.Counter)
	args := append(buf.Args, c.Owner, f.Lease(c.TTL), wire.Count(c.Count), wire.Count(c.Tokens))
	if c.Mode != driver.Shared {
		return wire.Call{Script: f.Get("rw_write_acquire"), Keys: keys, Args: append(args, layout.Tagged(k.Lock), "1")}
	}
	beside := ""
	if c.Beside != "" {
		beside = c.Beside + layout.WriteField
	}
	return wire.Call{
		Script: f.Get("rw_read_acquire"),
		Keys:   append(keys, layout.TimeoutKey(k, c.Owner, 1)),
		Args:   append(args, beside),
	}
}

// AcquireBeside returns the second call that acquires c, the claim of a writer, after the first
// call has found readers. The parameter `readers` has the field and the hold count of each
// reader, as in the reply to the first call.
func (f *ReadWrite) AcquireBeside(k layout.Keys, c driver.Claim, readers []string) wire.Call {
	call := f.Acquire(Buffers{}, k, c, nil)
	call.Keys, call.Args[len(call.Args)-1] = append(call.Keys, layout.TimeoutKeys(k, readers)...), ""
	return call
}

// Trim returns the call that shortens the TTL of a lock after a release that left readers. The
// parameter `readers` has the field and the hold count of each reader, as in the reply to the
// release.
func (f *ReadWrite) Trim(k layout.Keys, readers, publish []string) wire.Call {
	return wire.Call{
		Script: f.Get("rw_trim"),
		Keys:   append([]string{k.Lock}, layout.TimeoutKeys(k, readers)...),
		Args:   append([]string{layout.Tagged(k.Lock), layout.ReadWriteChannel(k)}, publish...),
	}
}

// Renew implements Form.
func (f *ReadWrite) Renew(buf Buffers, k layout.Keys, c driver.Claim) wire.Call {
	if c.Mode != driver.Shared {
		c.Owner += layout.WriteField
		return f.plain.Renew(buf, k, c)
	}
	return wire.Call{
		Script: f.Get("rw_read_renew"),
		Keys:   append(buf.Keys, k.Lock, layout.TimeoutKey(k, c.Owner, 1)),
		Args:   append(buf.Args, c.Owner, f.Lease(c.TTL), wire.Count(c.Count)),
	}
}

// Release implements Form. If readers remain, the script replies with them.
func (f *ReadWrite) Release(buf Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call {
	return f.end(buf, k, field(c), 1, "", "", "", publish)
}

// Abandon implements Form. If readers remain, the script replies with them.
func (f *ReadWrite) Abandon(k layout.Keys, c driver.Claim, publish []string, tombstoneTTL time.Duration) wire.Call {
	release := f.end(Buffers{}, k, field(c), 1, "", "abandoned", wire.MS(tombstoneTTL), publish)
	return withTombstone(release, release.Script, f.Tombstone(k, c.Owner))
}

// Force implements Form. If readers remain, the script replies with them.
func (f *ReadWrite) Force(k layout.Keys, h admin.Holder, reason, tombstoneTTL string, publish []string) wire.Call {
	release := f.end(Buffers{}, k, h.Owner, h.Holds, strconv.Itoa(h.Holds), layout.ForcedPrefix+reason, tombstoneTTL, publish)
	return withTombstone(release, release.Script, f.Tombstone(k, strings.TrimSuffix(h.Owner, layout.WriteField)))
}

// end returns the call that ends the hold with the given field. If `holds` is not "", the call
// ends the hold only if `holds` is its hold count. The parameter `timeouts` is the number of
// timeout keys, if the hold is that of a reader. The parameter `tombstone` is the text of the
// tombstone, or "" for none; the caller of end adds the key of the tombstone to the call.
func (f *ReadWrite) end(buf Buffers, k layout.Keys, field string, timeouts int, holds, tombstone, tombstoneTTL string, publish []string) wire.Call {
	keys := append(buf.Keys, k.Lock)
	for i := 1; i <= min(timeouts, 1000) && !strings.HasSuffix(field, layout.WriteField); i++ {
		keys = append(keys, layout.TimeoutKey(k, field, i))
	}
	args := append(buf.Args, field, layout.Tagged(k.Lock), layout.ReadWriteChannel(k), holds, tombstone, tombstoneTTL)
	return wire.Call{Script: f.Get("rw_release"), Keys: keys, Args: append(args, publish...)}
}

// Channel implements Kind.
func (f *ReadWrite) Channel(k layout.Keys, _ driver.Claim) string { return layout.ReadWriteChannel(k) }

// ReachesAll returns false, because the release of a reader publishes nothing if other readers
// remain, and the release of a writer may publish two messages.
func (f *ReadWrite) ReachesAll() bool { return false }

// Family implements Kind.
func (f *ReadWrite) Family() string { return "rw" }

// field returns the field of the hash that has the hold of c.
func field(c driver.Claim) string {
	if c.Mode == driver.Shared {
		return c.Owner
	}
	return c.Owner + layout.WriteField
}
