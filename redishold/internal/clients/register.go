package clients

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	// minRegistration is how long a registration lasts at least.
	minRegistration = 90 * time.Second
	// reportAhead is how long before a registration is due a report writes it: so a
	// try, which would write it without the holds, need not.
	reportBefore = 10 * time.Second
)

// registrar writes who a client is, once per client and not per lock: it rides
// along with a try or a renewal when it has become due.
type registrar struct {
	latest atomic.Pointer[registration] // of the client that was asked for last

	mu      sync.Mutex
	written map[string]*registration // by client uuid; never changed once it is there
}

// registration is what was last written for a client.
type registration struct {
	uuid      string
	ttl       time.Duration
	due, ends time.Time
	holds     string // what it says of holds; a try or a renewal writes it without
}

// lastsFor is how long the registration that goes with a TTL is to last.
func registrationTTL(ttl time.Duration) time.Duration { return max(minRegistration, 2*ttl) }

// covers reports that it need not be written yet for a claim with a TTL.
func (r *registration) covers(ttl time.Duration, now time.Time) bool {
	return r != nil && registrationTTL(ttl) <= r.ttl && now.Before(r.due)
}

// isWritten reports that c's client is registered and need not be again yet. It
// only looks at the latest one: most programs have no other.
func (r *registrar) isWritten(c driver.Claim) bool {
	last := r.latest.Load()
	return last != nil && last.uuid == c.Client && last.covers(c.TTL, time.Now())
}

// due reports whether c's client has to be registered now, and for how long. It
// counts as written with that, so that of many calls only one carries it.
func (r *registrar) due(c driver.Claim) (ttl time.Duration, ok bool) {
	if c.Client == "" {
		return 0, false
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.written[c.Client]
	if last.covers(c.TTL, now) {
		r.latest.Store(last)
		return 0, false
	}
	if last == nil {
		maps.DeleteFunc(r.written, func(_ string, old *registration) bool { return now.After(old.ends) })
	}
	return r.write(c.Client, registrationTTL(c.TTL), ""), true
}

// reportDue reports whether the registration of report's client has to be written, and
// for how long: what it holds is not what was written last, or the registration
// is due soon. It counts as written with that.
func (r *registrar) reportDue(report driver.Report) (ttl time.Duration, ok bool) {
	var held strings.Builder
	for _, h := range report.Holds {
		fmt.Fprintf(&held, "%s %d\n", h.Owner, h.Token)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.written[report.Client]
	if last == nil {
		last = &registration{}
	}
	if last.holds == held.String() && (last.holds == "" || last.covers(report.TTL, time.Now().Add(reportBefore))) {
		return 0, false
	}
	return r.write(report.Client, registrationTTL(report.TTL), held.String()), true
}

// write notes what is written for uuid, and returns for how long: a longer one, written
// for a long lease, is not cut short while it lasts.
func (r *registrar) write(uuid string, ttl time.Duration, holds string) time.Duration {
	now := time.Now()
	if last := r.written[uuid]; last != nil {
		ttl = max(ttl, last.ends.Sub(now))
	}
	next := &registration{uuid: uuid, ttl: ttl, due: now.Add(ttl / 3), ends: now.Add(ttl), holds: holds}
	r.written[uuid] = next
	r.latest.Store(next)
	return ttl
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
	if last := r.written[uuid]; last != nil {
		again := *last
		again.due = time.Now().Add(time.Second)
		r.written[uuid] = &again
		r.latest.Store(nil)
	}
}

// Forget makes this process register its clients again.
func (s *Clients) Forget() {
	s.names.forget()
	s.stems.forget()
}

// Registered reports that c's client need not be registered now, in any way.
func (s *Clients) Registered(c driver.Claim) bool {
	return s.names.isWritten(c) && (c.Mode != driver.Permit || s.stems.isWritten(c))
}

// Registrations returns the calls that register the clients of cs, as far as they are
// due, and the client of each call. Clients that take permits are registered under their stems
// as well, so that the ids of their permits lead to them.
func (s *Clients) Registrations(cs ...driver.Claim) (calls []wire.Call, uuids []string) {
	add := func(r *registrar, c driver.Claim, key, text string) {
		if ttl, ok := r.due(c); ok && text != "" {
			uuids = append(uuids, c.Client)
			keys, args := []string{s.Layout.Registration(key)}, []string{text, wire.MS(ttl)}
			calls = append(calls, wire.Call{Script: s.Script("register"), Keys: keys, Args: args})
		}
	}
	for _, c := range cs {
		if c.Anonymous && c.Note == "" || s.Registered(c) {
			continue // there is nothing to know of it, or it is known
		}
		d := s.Self(c.Note)
		if c.Anonymous {
			d = Description{Note: c.Note}
		}
		add(&s.names, c, c.Client, JSON(d))
		switch {
		case s.Layout.Name != "" || c.Mode != driver.Permit:
		case layout.HasStem(c.Client):
			add(&s.stems, c, layout.StemOf(c.Client), c.Client)
		default:
			add(&s.stems, c, "", "") // there is nothing to write
		}
	}
	return calls, uuids
}

// Unregistered notes that a call of Registrations failed, so that it is made again.
func (s *Clients) Unregistered(client string, err error) {
	s.names.retry(client)
	s.stems.retry(client)
	s.Log.Debug("redis: register this client for people to see", "error", err)
}
