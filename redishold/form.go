package redishold

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// form is how one kind of lock is kept: its keys, its scripts, its channel. What
// is the same for all kinds stands outside of it, since all scripts answer alike:
//
//	acquire          first token · {0, pttl, holder, holds} · {-1} another kind · {-2, mark}
//	renew            1 · 0
//	release, abandon 1 + receivers · -1 not published · 0
//
// Release takes one key where it can, so that a cluster slot on the move does not
// block it.
type form interface {
	prober

	// The calls of these lie in to, as far as it has room. ask is what registrations
	// begin with, if a busy answer shall say who the holder is, or "".
	acquire(to room, p place, c driver.Claim, ask string, publish []string) Call
	renew(to room, p place, c driver.Claim) Call
	release(to room, p place, c driver.Claim, publish []string) Call

	// abandon is release for a claim of which an acquire may still be under way:
	// it leaves a mark that lasts for markTTL.
	abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call

	// channel is where c hears that it is worth while to try again.
	channel(p place, c driver.Claim) string

	// tellsAll reports that those who receive the message of a release are all who
	// wait, each counted once.
	tellsAll() bool
}

// forms are how the kinds of lock are kept.
type forms struct{ exclusive, fair, readWrite, permit form }

func (b *Backend) newForms() forms {
	return forms{
		exclusive: b.rlock(),
		fair:      b.fairLock(),
		readWrite: b.readWrite(),
		permit:    semaphore{b.layout, &b.semaphores},
	}
}

// rlock returns the form of locks of one key.
func (b *Backend) rlock() rlock { return rlock{b.layout, &b.scripts.lockScripts} }

// oneKey returns that of the protocol.
func (b *Backend) oneKey() rlock {
	if b.own != nil {
		return *b.own
	}
	return b.rlock()
}

// form returns how c is kept.
func (b *Backend) form(c driver.Claim) form {
	switch {
	case b.own != nil:
		return b.own
	case c.Mode == driver.Permit:
		return b.forms.permit
	case c.ReadWrite:
		return b.forms.readWrite
	case c.Fair:
		return b.forms.fair
	default:
		return b.forms.exclusive
	}
}

// rlock is a lock of one key: Redisson's RLock, a hash of one field, owner → hold
// count; with the protocol Plain a string, the owner; with Timestamp a string, the Unix
// second at which the lock ends, and beside it a record of who wrote that.
type rlock struct {
	*layout
	scripts *lockScripts
}

// record returns the key of the record.
func (l *layout) record(p place) string { return l.beside(p.lock, "ts") }

// noted adds the key of the record to keys, if there is one.
func (f rlock) noted(p place, keys ...string) []string {
	if f.protocol == Timestamp {
		keys = append(keys, f.record(p))
	}
	return keys
}

// counted adds a hold count to args, if the layout has one.
func (f rlock) counted(holds string, args ...string) []string {
	if f.protocol == Redisson {
		args = append(args, holds)
	}
	return args
}

func (f rlock) acquire(to room, p place, c driver.Claim, ask string, _ []string) Call {
	return Call{
		Script: f.scripts.acquire,
		Keys:   f.noted(p, append(to.keys, p.lock, f.mark(p, c.Owner), p.counter)...),
		Args:   append(f.counted(count(c.Holds), append(to.args, c.Owner, f.lease(c.TTL))...), count(c.Tokens), ask),
	}
}

func (f rlock) renew(to room, p place, c driver.Claim) Call {
	return Call{
		Script: f.scripts.renew,
		Keys:   f.noted(p, append(to.keys, p.lock)...),
		Args:   f.counted(count(c.Holds), append(to.args, c.Owner, f.lease(c.TTL))...),
	}
}

// release of a lock with a record needs two keys, so while a cluster's slot is on the
// move it waits.
func (f rlock) release(to room, p place, c driver.Claim, publish []string) Call {
	return Call{
		Script: f.scripts.release,
		Keys:   f.noted(p, append(to.keys, p.lock)...),
		Args:   append(append(to.args, c.Owner, p.channel), publish...),
	}
}

func (f rlock) abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call {
	return Call{
		Script: f.scripts.abandon,
		Source: true, // rarely run, and a link that hangs must not bring NOSCRIPT when it is back
		Keys:   append(f.noted(p, p.lock), f.mark(p, c.Owner)),
		Args:   append([]string{c.Owner, ms(markTTL), p.channel}, publish...),
	}
}

func (f rlock) breakHold(p place, h admin.Holder, why, markTTL string, publish []string) Call {
	return Call{
		Script: f.scripts.breakHold,
		Keys:   append(f.noted(p, p.lock), f.mark(p, h.Owner)),
		Args:   append(append(f.counted(strconv.Itoa(h.Holds), h.Owner), why, markTTL, p.channel), publish...),
	}
}

func (f rlock) explain(p place, c driver.Claim) Call {
	return Call{Script: f.scripts.explain, Keys: f.noted(p, p.lock, f.mark(p, c.Owner), p.counter)}
}

func (f rlock) channel(p place, _ driver.Claim) string { return p.channel }

func (f rlock) tellsAll() bool { return true }

// ms is a duration as an argument of a script.
func ms(d time.Duration) string { return strconv.FormatInt(millis(d), 10) }

// count is a number of at least 1 as an argument of a script.
func count(n int) string { return strconv.Itoa(max(1, n)) }
