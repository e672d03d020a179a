package redishold

import (
	"crypto/rand"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// timestamp is a string key whose value is the Unix second at which the lock
// ends, and beside it a record of who wrote that.
type timestamp struct {
	layout  *layout
	scripts *plainScripts
}

// record returns the key of the record.
func (l *layout) record(p place) string { return l.beside(p.lock, "ts") }

func (f timestamp) acquire(to room, p place, c driver.Claim, ask string, _ []string) Call {
	return Call{
		Script: f.scripts.acquire,
		Keys:   append(to.keys, p.lock, f.layout.mark(p, c.Owner), p.counter, f.layout.record(p)),
		Args:   append(to.args, c.Owner, f.layout.lease(c.TTL), count(c.Tokens), ask),
	}
}

func (f timestamp) renew(to room, p place, c driver.Claim) Call {
	return Call{
		Script: f.scripts.renew,
		Keys:   append(to.keys, p.lock, f.layout.record(p)),
		Args:   append(to.args, c.Owner, f.layout.lease(c.TTL)),
	}
}

// release needs two keys, so while a cluster's slot is on the move it waits.
func (f timestamp) release(to room, p place, c driver.Claim, publish []string) Call {
	return Call{
		Script: f.scripts.release,
		Keys:   append(to.keys, p.lock, f.layout.record(p)),
		Args:   append(append(to.args, c.Owner, p.channel), publish...),
	}
}

func (f timestamp) abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call {
	return Call{
		Script: f.scripts.abandon,
		Source: true, // see rlock.abandon
		Keys:   []string{p.lock, f.layout.record(p), f.layout.mark(p, c.Owner)},
		Args:   append([]string{c.Owner, ms(markTTL), p.channel}, publish...),
	}
}

func (f timestamp) channel(p place, _ driver.Claim) string { return p.channel }

func (f timestamp) tellsAll() bool { return true }

func (f timestamp) breakHold(p place, h admin.Holder, why, markTTL string, publish []string) Call {
	return Call{
		Script: f.scripts.breakHold,
		Keys:   []string{p.lock, f.layout.record(p), f.layout.mark(p, h.Owner)},
		Args:   append([]string{h.Owner, why, markTTL, p.channel}, publish...),
	}
}

func (f timestamp) explain(p place, c driver.Claim) Call {
	return Call{
		Script: f.scripts.explain,
		Keys:   []string{p.lock, f.layout.mark(p, c.Owner), p.counter, f.layout.record(p)},
	}
}

func (f timestamp) probe() *Script { return f.scripts.probe }

func (f timestamp) probeKeys(scratch place) []string {
	return []string{
		scratch.lock, f.layout.mark(scratch, "probe"),
		scratch.counter + ":holdfast-probe:" + rand.Text(), f.layout.record(scratch),
	}
}
