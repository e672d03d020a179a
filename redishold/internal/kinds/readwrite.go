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

// readWrite is Redisson's read-write lock. Its hash has a field "mode", a field owner → hold
// count for each reader, and a field owner:write for the writer. Each read hold also has a
// timeout key, whose TTL is the lease, so that live readers differ from dead ones. An owner of
// Holdfast has only one timeout key, with the number 1, for all its holds. An owner of Redisson
// has one timeout key for each of its holds.
//
// In read mode no reader is refused, even if writers wait: the layout has no key for waiting
// writers.
//
// Every acquire of a writer, and every release, reads the timeout keys of all readers. The
// names of these keys are only known inside the script, so the keys are not among its KEYS. A
// cluster allows that, because the keys are in the slot of the lock. If the server refuses to
// read a timeout key, its reader counts as live.
type readWrite struct {
	*layout.Layout
	*scripts.Library

	plain Exclusive // renews the write side
}

// ReadWrite returns the Form of read-write locks. It renews the write side of a lock as `plain`
// renews an exclusive lock.
func ReadWrite(plain Exclusive, library *scripts.Library) Form {
	return &readWrite{plain.Layout, library, plain}
}

func (f *readWrite) Acquire(buf Buffers, k layout.Keys, c driver.Claim, ask string, _ []string) wire.Call {
	keys := append(buf.Keys, k.Lock, f.Tombstone(k, c.Owner), k.Counter)
	args := append(buf.Args, c.Owner, f.Lease(c.TTL), wire.Count(c.Count), wire.Count(c.Tokens))
	if c.Mode != driver.Shared {
		return wire.Call{Script: f.Get("rw_write_acquire"), Keys: keys, Args: append(args, layout.Tagged(k.Lock), ask)}
	}
	beside := ""
	if c.Beside != "" {
		beside = c.Beside + layout.WriteField
	}
	return wire.Call{
		Script: f.Get("rw_read_acquire"),
		Keys:   append(keys, layout.TimeoutKey(k, c.Owner, 1)),
		Args:   append(args, beside, ask),
	}
}

func (f *readWrite) Renew(buf Buffers, k layout.Keys, c driver.Claim) wire.Call {
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

func (f *readWrite) Release(buf Buffers, k layout.Keys, c driver.Claim, publish []string) wire.Call {
	return f.end(buf, k, field(c), 1, "", "", "", publish)
}

func (f *readWrite) Abandon(k layout.Keys, c driver.Claim, publish []string, tombstoneTTL time.Duration) wire.Call {
	release := f.end(Buffers{}, k, field(c), 1, "", "abandoned", wire.MS(tombstoneTTL), publish)
	return withTombstone(release, release.Script, f.Tombstone(k, c.Owner))
}

func (f *readWrite) Force(k layout.Keys, h admin.Holder, reason, tombstoneTTL string, publish []string) wire.Call {
	release := f.end(Buffers{}, k, h.Owner, h.Holds, strconv.Itoa(h.Holds), layout.ForcedPrefix+reason, tombstoneTTL, publish)
	return withTombstone(release, release.Script, f.Tombstone(k, strings.TrimSuffix(h.Owner, layout.WriteField)))
}

// end returns the call that ends the hold with the given field. If `holds` is not "", the call
// ends the hold only if `holds` is its hold count. The parameter `timeouts` is the number of
// timeout keys, if the hold is that of a reader. The parameter `tombstone` is the text of the
// tombstone, or "" for none; the caller of end adds the key of the tombstone to the call.
func (f *readWrite) end(buf Buffers, k layout.Keys, field string, timeouts int, holds, tombstone, tombstoneTTL string, publish []string) wire.Call {
	keys := append(buf.Keys, k.Lock)
	for i := 1; i <= min(timeouts, 1000) && !strings.HasSuffix(field, layout.WriteField); i++ {
		keys = append(keys, layout.TimeoutKey(k, field, i))
	}
	args := append(buf.Args, field, layout.Tagged(k.Lock), layout.ReadWriteChannel(k), holds, tombstone, tombstoneTTL)
	return wire.Call{Script: f.Get("rw_release"), Keys: keys, Args: append(args, publish...)}
}

func (f *readWrite) Channel(k layout.Keys, _ driver.Claim) string { return layout.ReadWriteChannel(k) }

// ReachesAll returns false, because the release of a reader publishes nothing if other readers
// remain, and the release of a writer may publish two messages.
func (f *readWrite) ReachesAll() bool { return false }

func (f *readWrite) Family() string { return "rw" }

// field returns the field of the hash that has the hold of c.
func field(c driver.Claim) string {
	if c.Mode == driver.Shared {
		return c.Owner
	}
	return c.Owner + layout.WriteField
}
