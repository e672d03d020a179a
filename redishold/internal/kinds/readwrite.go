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

// readWrite is Redisson's read-write lock. Its hash has a field "mode", a field
// owner → hold count for each reader, and a field owner:write for the writer.
// Each read hold has a timeout key besides, whose TTL is its lease, so that a
// reader that died is distinguished from one that lives. Ours have one each, number 1,
// whatever their count; a Redisson client has one for each of its holds.
//
// Readers are never refused while the lock is in read mode, even if writers
// wait: the layout has no place where a writer could announce itself.
//
// A writer, and every release, has to look at the timeout keys of all readers,
// whose names it learns inside the script, so they are not among its keys. They lie in
// the lock's hash slot, so a cluster allows that. It only reads them: where that is
// refused, their readers count as live.
type readWrite struct {
	*layout.Layout
	*scripts.Library

	plain Exclusive // renews the write side
}

// ReadWrite returns how read-write locks are kept, beside plain ones.
func ReadWrite(plain Exclusive, library *scripts.Library) Form {
	return &readWrite{plain.Layout, library, plain}
}

func (f *readWrite) Acquire(to Room, p layout.Place, c driver.Claim, ask string, _ []string) wire.Call {
	keys := append(to.Keys, p.Lock, f.Mark(p, c.Owner), p.Counter)
	args := append(to.Args, c.Owner, f.Lease(c.TTL), wire.Count(c.Count), wire.Count(c.Tokens))
	if c.Mode != driver.Shared {
		return wire.Call{Script: f.Get("rw_write_acquire"), Keys: keys, Args: append(args, layout.Tagged(p.Lock), ask)}
	}
	beside := ""
	if c.Beside != "" {
		beside = c.Beside + layout.WriteField
	}
	return wire.Call{
		Script: f.Get("rw_read_acquire"),
		Keys:   append(keys, layout.ReadTimeout(p, c.Owner, 1)),
		Args:   append(args, beside, ask),
	}
}

func (f *readWrite) Renew(to Room, p layout.Place, c driver.Claim) wire.Call {
	if c.Mode != driver.Shared {
		c.Owner += layout.WriteField
		return f.plain.Renew(to, p, c)
	}
	return wire.Call{
		Script: f.Get("rw_read_renew"),
		Keys:   append(to.Keys, p.Lock, layout.ReadTimeout(p, c.Owner, 1)),
		Args:   append(to.Args, c.Owner, f.Lease(c.TTL), wire.Count(c.Count)),
	}
}

func (f *readWrite) Release(to Room, p layout.Place, c driver.Claim, publish []string) wire.Call {
	return f.end(to, p, field(c), 1, "", "", "", publish)
}

func (f *readWrite) Abandon(p layout.Place, c driver.Claim, publish []string, markTTL time.Duration) wire.Call {
	release := f.end(Room{}, p, field(c), 1, "", "abandoned", wire.MS(markTTL), publish)
	return marking(release, release.Script, f.Mark(p, c.Owner))
}

func (f *readWrite) Break(p layout.Place, h admin.Holder, why, markTTL string, publish []string) wire.Call {
	release := f.end(Room{}, p, h.Owner, h.Holds, strconv.Itoa(h.Holds), layout.ForcedMark+why, markTTL, publish)
	return marking(release, release.Script, f.Mark(p, strings.TrimSuffix(h.Owner, layout.WriteField)))
}

// end ends the hold of a field, if it has that count or none is given. A reader's has so
// many timeout keys.
func (f *readWrite) end(to Room, p layout.Place, field string, timeouts int, holds, mark, markTTL string, publish []string) wire.Call {
	keys := append(to.Keys, p.Lock)
	for i := 1; i <= min(timeouts, 1000) && !strings.HasSuffix(field, layout.WriteField); i++ {
		keys = append(keys, layout.ReadTimeout(p, field, i))
	}
	args := append(to.Args, field, layout.Tagged(p.Lock), layout.ReadWriteChannel(p), holds, mark, markTTL)
	return wire.Call{Script: f.Get("rw_release"), Keys: keys, Args: append(args, publish...)}
}

func (f *readWrite) Channel(p layout.Place, _ driver.Claim) string { return layout.ReadWriteChannel(p) }

// tellsAll: a reader that leaves others behind notifies no client, a writer notifies twice.
func (f *readWrite) ReachesAll() bool { return false }

func (f *readWrite) Family() string { return "rw" }

// field returns the field of c's hold.
func field(c driver.Claim) string {
	if c.Mode == driver.Shared {
		return c.Owner
	}
	return c.Owner + layout.WriteField
}
