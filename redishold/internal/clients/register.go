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
	// minRegistration is the minimal TTL of a registration.
	minRegistration = 90 * time.Second
	// reportBefore is how early a report writes a registration that has holds: at most this time
	// before the registration is due. Without such a report, a try would write the registration
	// when it is due, and without the holds.
	reportBefore = 10 * time.Second
)

// registrar decides when the registration of a client is written. A registration that is due
// is written together with the next try or renewal of any lock of the client.
type registrar struct {
	latest atomic.Pointer[registration] // the registration that was written or checked last

	mu      sync.Mutex
	written map[string]*registration // by UUID of the client; an element is never changed, but replaced by a new one
}

// registration is the latest registration that was written for a client.
type registration struct {
	uuid      string
	ttl       time.Duration
	due, ends time.Time
	holds     string // the holds in the registration, as a text for comparison; "" if a try or a renewal has written the registration
}

// registrationTTL returns the TTL of the registration for claims with the given TTL.
func registrationTTL(ttl time.Duration) time.Duration { return max(minRegistration, 2*ttl) }

// covers reports whether r need not be written again yet, for a claim with the given TTL.
func (r *registration) covers(ttl time.Duration, now time.Time) bool {
	return r != nil && registrationTTL(ttl) <= r.ttl && now.Before(r.due)
}

// isWritten reports whether the client of c is registered and need not be registered again yet.
// It only checks the client that was written or checked last, because most programs have only
// one client.
func (r *registrar) isWritten(c driver.Claim) bool {
	last := r.latest.Load()
	return last != nil && last.uuid == c.Client && last.covers(c.TTL, time.Now())
}

// due reports whether the client of c must be registered now, and with which TTL. If so, it
// records the registration as written, so that only one of many calls writes it.
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

// reportDue reports whether the given report must write the registration of its client, and with
// which TTL. A report must write it if the holds have changed since the registration was
// written, or if the registration has holds and is due soon. If so, reportDue records the
// registration as written.
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

// write records a registration as written, and returns its TTL. The TTL is at least the
// remaining TTL of the last registration, which may be for a longer lease.
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

// forget makes all registrations due, because the server may have lost them.
func (r *registrar) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.written)
	r.latest.Store(nil)
}

// retry makes the registration of the client `uuid` due in a second. Its caller has failed to
// write that registration.
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

// Forget makes this process register all its clients again.
func (s *Clients) Forget() {
	s.names.forget()
	s.stems.forget()
}

// Registered reports whether the client of c need not be registered now, neither by its UUID
// nor by its stem.
func (s *Clients) Registered(c driver.Claim) bool {
	return s.names.isWritten(c) && (c.Mode != driver.Permit || s.stems.isWritten(c))
}

// Registrations returns one call for each registration that is due now. It checks the clients of
// the claims cs only. The result `uuids` has the UUID of the client for each call. A client that
// takes permits is also registered by its stem, so that it can be found by the ids of its
// permits.
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
			continue // the client has no description, or it is registered
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
			add(&s.stems, c, "", "") // without a call, but the registration counts as written
		}
	}
	return calls, uuids
}

// Unregistered records that a call of Registrations has failed, so that Registrations returns
// that call again after a second.
func (s *Clients) Unregistered(client string, err error) {
	s.names.retry(client)
	s.stems.retry(client)
	s.Log.Debug("redis: register this client for people to see", "error", err)
}
