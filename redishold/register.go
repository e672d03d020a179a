package redishold

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// description is what a client says of itself, for people who look at a lock.
type description struct {
	Note    string `json:"note"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Started string `json:"started,omitempty"` // RFC 3339
}

// describeProcess describes this process.
func describeProcess() description {
	d := description{PID: os.Getpid(), Started: time.Now().UTC().Format(time.RFC3339)}
	if host, err := os.Hostname(); err == nil {
		d.Host = host
	}
	if len(os.Args) > 0 {
		d.Program = filepath.Base(os.Args[0])
	}
	return d
}

// String returns the description as people read it.
func (d description) String() string {
	if d.Note != "" || d.Program == "" {
		return d.Note
	}
	return d.Program + "@" + d.Host + ":" + strconv.Itoa(d.PID)
}

// minRegistration is how long a registration lasts at least.
const minRegistration = 90 * time.Second

// registrar writes who a client is, once per client and not per lock: it rides
// along with a try or a renewal when it has become due.
type registrar struct {
	self description

	latest atomic.Pointer[written] // of the client that was asked for last

	mu      sync.Mutex
	written map[string]registration // by client uuid
}

// written is a client and its registration.
type written struct {
	uuid string
	registration
}

// registration is what was last written for a client.
type registration struct {
	ttl       time.Duration
	due, ends time.Time
	holds     string // what it says of holds; a try or a renewal writes it without
}

// uuidOf returns the client's part of an owner that the store keeps, "" if it has none.
func uuidOf(owner string) string {
	uuid, _, _ := cutOwner(owner)
	return uuid
}

// cutOwner splits "<uuid of the client>:<number>", as the store keeps owners.
func cutOwner(owner string) (uuid, number string, ok bool) {
	i := strings.LastIndexByte(owner, ':')
	if i <= 0 {
		return "", "", false
	}
	return owner[:i], owner[i+1:], true
}

// lastsFor is how long the registration that goes with c is to last.
func lastsFor(c driver.Claim) time.Duration { return max(minRegistration, 2*c.TTL) }

// isWritten reports that c's client is registered and need not be again yet. It
// only looks at the latest one: most programs have no other.
func (r *registrar) isWritten(c driver.Claim) bool {
	last := r.latest.Load()
	return last != nil && last.uuid == c.Client && lastsFor(c) <= last.ttl && time.Now().Before(last.due)
}

// due reports whether c's client has to be registered now, and for how long. It
// counts as written with that, so that of many calls only one carries it.
func (r *registrar) due(c driver.Claim) (ttl time.Duration, ok bool) {
	uuid, now := c.Client, time.Now()
	if uuid == "" {
		return 0, false
	}
	ttl = lastsFor(c)

	r.mu.Lock()
	defer r.mu.Unlock()
	last, seen := r.written[uuid]
	if seen && now.Before(last.due) && ttl <= last.ttl {
		r.latest.Store(&written{uuid, last})
		return 0, false
	}
	if !seen {
		r.forgetEnded(now)
	}
	return r.write(uuid, last, ttl, ""), true
}

// write notes what is written for uuid in place of last, for ttl, and returns for how
// long: a longer one, written for a long lease, is not cut short while it lasts.
func (r *registrar) write(uuid string, last registration, ttl time.Duration, holds string) time.Duration {
	now := time.Now()
	ttl = max(ttl, last.ends.Sub(now))
	last = registration{ttl: ttl, due: now.Add(ttl / 3), ends: now.Add(ttl), holds: holds}
	r.written[uuid] = last
	r.latest.Store(&written{uuid, last})
	return ttl
}

func (r *registrar) forgetEnded(now time.Time) {
	for uuid, last := range r.written {
		if now.After(last.ends) {
			delete(r.written, uuid)
		}
	}
}

// forget makes all registrations due again: the server may have lost them.
func (r *registrar) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.written)
	r.latest.Store(nil)
}

// retry makes the registration of uuid due again soon, after it failed.
func (r *registrar) retry(uuid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.written[uuid]; ok {
		last.due = time.Now().Add(time.Second)
		r.written[uuid] = last
		r.latest.Store(nil)
	}
}

// unnamed says that nothing is to be known of c's client.
func unnamed(c driver.Claim) bool { return c.Anonymous && c.Note == "" }

// isRegistered reports that c's client need not be registered now, in any way.
func (b *Backend) isRegistered(c driver.Claim) bool {
	return b.clients.isWritten(c) && (c.Mode != driver.Permit || b.stems.isWritten(c))
}

// registrations returns the calls that register the clients of cs, as far as they are
// due, and whose they are. Clients that take permits are registered under their stems
// as well, so that the ids of their permits lead to them.
func (b *Backend) registrations(cs ...driver.Claim) (calls []Call, uuids []string) {
	add := func(r *registrar, c driver.Claim, key, text string) {
		if ttl, ok := r.due(c); ok && text != "" {
			uuids = append(uuids, c.Client)
			calls = append(calls, Call{Script: b.scripts.register, Keys: []string{b.layout.client(key)}, Args: []string{text, ms(ttl)}})
		}
	}
	for _, c := range cs {
		if unnamed(c) || b.isRegistered(c) {
			continue
		}
		uuid := c.Client
		if !b.clients.isWritten(c) {
			var d description
			if !c.Anonymous {
				d = b.clients.self
			}
			d.Note = c.Note
			add(&b.clients, c, uuid, object(d))
		}
		if b.own != nil || c.Mode != driver.Permit || b.stems.isWritten(c) {
			continue
		}
		if hasStem(uuid) {
			add(&b.stems, c, stemOf(uuid), uuid)
		} else {
			add(&b.stems, c, "", "") // there is nothing to write
		}
	}
	return calls, uuids
}

// doRegistering runs calls for cs, and what registrations are due. On one server
// they share the round trip. In a cluster a registration may live on another
// node, whose trouble must not hold up the answers.
func (b *Backend) doRegistering(ctx context.Context, cluster bool, calls []Call, cs ...driver.Claim) []Result {
	extra, uuids := b.registrations(cs...)
	if !cluster {
		results := b.do(ctx, append(calls, extra...)...)
		b.registered(uuids, results[len(calls):])
		return results[:len(calls)]
	}
	results := b.do(ctx, calls...)
	if len(extra) > 0 {
		ctx, cancel := context.WithTimeout(ctx, asideLimit)
		defer cancel()
		b.registered(uuids, b.do(ctx, extra...))
	}
	return results
}

func (b *Backend) registered(uuids []string, results []Result) {
	for i, uuid := range uuids {
		if err := results[i].Err; err != nil {
			b.clients.retry(uuid)
			b.stems.retry(uuid)
			b.log.Debug("redis: register this client for people to see", "error", err)
		}
	}
}
