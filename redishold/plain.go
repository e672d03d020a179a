package redishold

import (
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// plain is a string key. With the protocol Plain its value is the owner. With
// Timestamp it is the Unix second at which the lock ends, and beside it is a record of
// who wrote that.
type plain struct {
	layout  *layout
	scripts *lockScripts
}

// record returns the key of the record.
func (l *layout) record(p place) string { return l.beside(p.lock, "ts") }

// record adds the key of the record, if there is one.
func (f plain) record(p place, keys ...string) []string {
	if f.layout.protocol == Timestamp {
		keys = append(keys, f.layout.record(p))
	}
	return keys
}

func (f plain) acquire(to room, p place, c driver.Claim, ask string, _ []string) Call {
	return Call{
		Script: f.scripts.acquire,
		Keys:   f.record(p, append(to.keys, p.lock, f.layout.mark(p, c.Owner), p.counter)...),
		Args:   append(to.args, c.Owner, f.layout.lease(c.TTL), count(c.Tokens), ask),
	}
}

func (f plain) renew(to room, p place, c driver.Claim) Call {
	return Call{
		Script: f.scripts.renew,
		Keys:   f.record(p, append(to.keys, p.lock)...),
		Args:   append(to.args, c.Owner, f.layout.lease(c.TTL)),
	}
}

// release of a lock with a record needs two keys, so while a cluster's slot is on the
// move it waits.
func (f plain) release(to room, p place, c driver.Claim, publish []string) Call {
	return Call{
		Script: f.scripts.release,
		Keys:   f.record(p, append(to.keys, p.lock)...),
		Args:   append(append(to.args, c.Owner, p.channel), publish...),
	}
}

func (f plain) abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call {
	return Call{
		Script: f.scripts.abandon,
		Source: true, // see rlock.abandon
		Keys:   append(f.record(p, p.lock), f.layout.mark(p, c.Owner)),
		Args:   append([]string{c.Owner, ms(markTTL), p.channel}, publish...),
	}
}

func (f plain) channel(p place, _ driver.Claim) string { return p.channel }

func (f plain) tellsAll() bool { return true }

func (f plain) breakHold(p place, h admin.Holder, why, markTTL string, publish []string) Call {
	return Call{
		Script: f.scripts.breakHold,
		Keys:   append(f.record(p, p.lock), f.layout.mark(p, h.Owner)),
		Args:   append([]string{h.Owner, why, markTTL, p.channel}, publish...),
	}
}

func (f plain) explain(p place, c driver.Claim) Call {
	return Call{Script: f.scripts.explain, Keys: f.record(p, p.lock, f.layout.mark(p, c.Owner), p.counter)}
}

func (f plain) probe() *Script { return f.scripts.probe }
