package redishold

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// readWrite is Redisson's read-write lock. Its hash has a field "mode", a field
// owner → hold count for each reader, and a field owner:write for the writer.
// Each read hold has a timeout key besides, whose TTL is its lease, so that a
// reader that died is told from one that lives. Ours have one each, number 1,
// whatever their count; a Redisson client has one for each of its holds.
//
// Readers are never refused while the lock is in read mode, even if writers
// wait: the layout has no place where a writer could announce itself.
//
// A writer, and every release, has to look at the timeout keys of all readers,
// whose names it learns inside the script. They lie in the lock's hash slot, so a
// cluster allows that.
type readWrite struct {
	*layout
	*rwScripts

	plain rlock // renews the write side
}

// rwScripts are the scripts of read-write locks.
type rwScripts struct {
	readAcquire, readRenew *Script
	writeAcquire           *Script
	leave                  *Script // release, abandon and break of both sides
	proof                  *Script
}

func loadRWScripts() rwScripts {
	return rwScripts{
		readAcquire:  loadScript("rw_read_acquire"),
		readRenew:    loadScript("rw_read_renew"),
		writeAcquire: loadScript("rw_write_acquire"),
		leave:        loadScript("rw_release"),
		proof:        loadScript("rw_probe"),
	}
}

func (f readWrite) acquire(to room, p place, c driver.Claim, ask string, _ []string) Call {
	keys := append(to.keys, p.lock, f.mark(p, c.Owner), p.counter)
	args := append(to.args, c.Owner, f.lease(c.TTL), count(c.Holds), count(c.Tokens))
	if c.Mode != driver.Shared {
		return Call{Script: f.writeAcquire, Keys: keys, Args: append(args, tagged(p.lock), ask)}
	}
	beside := ""
	if c.Beside != "" {
		beside = c.Beside + writeField
	}
	return Call{
		Script: f.readAcquire,
		Keys:   append(keys, readTimeout(p, c.Owner)),
		Args:   append(args, beside, ask),
	}
}

func (f readWrite) renew(to room, p place, c driver.Claim) Call {
	if c.Mode != driver.Shared {
		c.Owner += writeField
		return f.plain.renew(to, p, c)
	}
	return Call{
		Script: f.readRenew,
		Keys:   append(to.keys, p.lock),
		Args:   append(to.args, c.Owner, f.lease(c.TTL), count(c.Holds), readTimeout(p, c.Owner)),
	}
}

func (f readWrite) release(to room, p place, c driver.Claim, publish []string) Call {
	args := append(to.args, field(c), tagged(p.lock), rwChannel(p), "", "", "")
	return Call{Script: f.leave, Keys: append(to.keys, p.lock), Args: append(args, publish...)}
}

func (f readWrite) abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call {
	args := []string{field(c), tagged(p.lock), rwChannel(p), "", "abandoned", ms(markTTL)}
	return Call{
		Script: f.leave,
		Source: true, // as rlock.abandon
		Keys:   []string{p.lock, f.mark(p, c.Owner)},
		Args:   append(args, publish...),
	}
}

// breakHold ends exactly the hold h, as inspection showed it, and leaves others.
func (f readWrite) breakHold(p place, h admin.Holder, why string, publish []string) Call {
	owner := strings.TrimSuffix(h.Owner, writeField)
	args := []string{h.Owner, tagged(p.lock), rwChannel(p), strconv.Itoa(h.Holds), forcedMark + why, ms(max(h.Remaining, minMark))}
	return Call{
		Script: f.leave,
		Keys:   []string{p.lock, f.mark(p, owner)},
		Args:   append(args, publish...),
	}
}

func (f readWrite) channel(p place, _ driver.Claim) string { return rwChannel(p) }

// tellsAll: a reader that leaves others behind tells nobody, a writer tells twice.
func (f readWrite) tellsAll() bool { return false }

func (f readWrite) probe() *Script { return f.proof }

// writeField ends the field of a writer.
const writeField = ":write"

// field returns the field of c's hold.
func field(c driver.Claim) string {
	if c.Mode == driver.Shared {
		return c.Owner
	}
	return c.Owner + writeField
}

// readTimeout returns the key whose TTL is the lease of owner's read hold.
func readTimeout(p place, owner string) string {
	return tagged(p.lock) + ":" + owner + ":rwlock_timeout:1"
}

// rwChannel returns where both sides hear of releases.
func rwChannel(p place) string { return "redisson_rwlock:" + tagged(p.lock) }

// readWrite returns the form of read-write locks.
func (b *Backend) readWrite() readWrite {
	return readWrite{b.layout, &b.rw, b.rlock()}
}
