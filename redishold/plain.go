package redishold

import (
	"crypto/rand"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// plainScripts are the scripts of a lock that is a string.
type plainScripts struct {
	acquire, renew, release, abandon *Script
	breakHold, explain               *Script
	probe                            *Script
}

func loadPlainScripts(kind string) *plainScripts {
	return &plainScripts{
		acquire:   loadScript(kind + "_acquire"),
		renew:     loadScript(kind + "_renew"),
		release:   loadScript(kind + "_release"),
		abandon:   loadScript(kind + "_abandon"),
		breakHold: loadScript(kind + "_break"),
		explain:   loadScript(kind + "_explain"),
		probe:     loadScript("plain_probe"),
	}
}

// plain is a string key whose value is the owner.
type plain struct {
	layout  *layout
	scripts *plainScripts
}

func (f plain) acquire(to room, p place, c driver.Claim, ask string, _ []string) Call {
	return Call{
		Script: f.scripts.acquire,
		Keys:   append(to.keys, p.lock, f.layout.mark(p, c.Owner), p.counter),
		Args:   append(to.args, c.Owner, f.layout.lease(c.TTL), count(c.Tokens), ask),
	}
}

func (f plain) renew(to room, p place, c driver.Claim) Call {
	return Call{Script: f.scripts.renew, Keys: append(to.keys, p.lock), Args: append(to.args, c.Owner, f.layout.lease(c.TTL))}
}

func (f plain) release(to room, p place, c driver.Claim, publish []string) Call {
	return Call{
		Script: f.scripts.release,
		Keys:   append(to.keys, p.lock),
		Args:   append(append(to.args, c.Owner, p.channel), publish...),
	}
}

func (f plain) abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call {
	return Call{
		Script: f.scripts.abandon,
		Source: true, // see rlock.abandon
		Keys:   []string{p.lock, f.layout.mark(p, c.Owner)},
		Args:   append([]string{c.Owner, ms(markTTL), p.channel}, publish...),
	}
}

func (f plain) channel(p place, _ driver.Claim) string { return p.channel }

func (f plain) tellsAll() bool { return true }

func (f plain) breakHold(p place, h admin.Holder, why, markTTL string, publish []string) Call {
	return Call{
		Script: f.scripts.breakHold,
		Keys:   []string{p.lock, f.layout.mark(p, h.Owner)},
		Args:   append([]string{h.Owner, why, markTTL, p.channel}, publish...),
	}
}

func (f plain) explain(p place, c driver.Claim) Call {
	return Call{Script: f.scripts.explain, Keys: []string{p.lock, f.layout.mark(p, c.Owner), p.counter}}
}

func (f plain) probe() *Script { return f.scripts.probe }

func (f plain) probeKeys(scratch place) []string {
	return []string{scratch.lock, f.layout.mark(scratch, "probe"), scratch.counter + ":holdfast-probe:" + rand.Text()}
}
