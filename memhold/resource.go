package memhold

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// kind is what a name is used for, as long as it is in use.
type kind string

const (
	mutex     kind = "mutex"
	readWrite kind = "read-write lock"
	semaphore kind = "semaphore"
	latch     kind = "count-down latch"
)

func kindOf(c driver.Claim) kind {
	switch {
	case c.Mode == driver.Permit:
		return semaphore
	case c.ReadWrite || c.Mode == driver.Shared:
		return readWrite
	default:
		return mutex
	}
}

// resource is the state of a name in use. freed is closed, and replaced by a new channel,
// whenever another claim may be granted or a latch opens. So a waiter that has the channel
// misses no change, even if it begins to wait later.
type resource struct {
	kind    kind
	grants  []*grant // in the order in which they were given
	queue   []*place // fair claims that wait, in the order in which they came
	permits int      // the number of all permits of a semaphore
	count   int64    // the count of a latch
	freed   chan struct{}
}

func newResource(k kind) *resource { return &resource{kind: k, freed: make(chan struct{})} }

// grant is one hold of a name.
type grant struct {
	owner     string
	client    string
	seq       uint64
	note      string
	mode      driver.Mode
	holds     int
	token     uint64 // the first token that was reserved with the grant
	grantedAt time.Time
	expires   time.Time
}

// extend extends the lease to the TTL of c, and records its count. It never shortens the
// lease.
func (g *grant) extend(c driver.Claim, now time.Time) {
	g.holds = max(c.Count, 1)
	g.expires = later(g.expires, now.Add(c.TTL))
}

// held returns owner's grant, or nil.
func (e *resource) held(owner string) *grant {
	for _, g := range e.grants {
		if g.owner == owner {
			return g
		}
	}
	return nil
}

// exclusive returns the grant that excludes all others, or nil.
func (e *resource) exclusive() *grant {
	for _, g := range e.grants {
		if g.mode == driver.Exclusive {
			return g
		}
	}
	return nil
}

// beside reports whether c is a Shared claim of a caller that has the exclusive grant of e. The
// field Beside of such a claim is the owner of that grant.
func (e *resource) beside(c driver.Claim) bool {
	x := e.exclusive()
	return x != nil && c.Mode == driver.Shared && x.owner == c.Beside
}

// admits reports whether c can be granted beside the present grants.
func (e *resource) admits(c driver.Claim) bool {
	switch {
	case e.kind == semaphore:
		return len(e.grants) < e.permits
	case c.Mode == driver.Shared:
		return e.exclusive() == nil || e.beside(c)
	default:
		return len(e.grants) == 0
	}
}

// enter reports whether c can be granted now. A fair claim can be granted only if it is the
// first in the queue. If it can be granted, enter removes it from the queue, else enter puts it
// into the queue, unless NoQueue is set. A claim for which the method beside returns true does
// not queue, because its caller would wait for its own grant.
func (e *resource) enter(c driver.Claim, now time.Time) bool {
	if !c.Fair || e.beside(c) {
		return e.admits(c)
	}
	if c.NoQueue && e.find(c.Owner) < 0 {
		return len(e.queue) == 0 && e.admits(c)
	}
	if e.position(c, now) > 0 || !e.admits(c) {
		return false
	}
	e.leave(c.Owner)
	return true
}

// refusal returns the answer to c, which was not granted.
func (e *resource) refusal(c driver.Claim, now time.Time) driver.Outcome {
	o := driver.Outcome{Ahead: ahead{changed: e.freed}}
	var next time.Time
	for _, g := range e.grants {
		next = sooner(next, g.expires)
	}
	if len(e.grants) > 0 {
		o.Holder, o.HeldFor, o.Kept = e.grants[0].note, now.Sub(e.grants[0].grantedAt), driver.Kept(e.grants[0].owner)
	}
	if i := e.find(c.Owner); i >= 0 {
		o.Queued = true
		o.Ahead = ahead{changed: e.queue[i].woken, before: i}
		for _, p := range e.queue[:i] {
			next = sooner(next, p.until)
		}
		next = sooner(next, now.Add(presence/3)) // the claim must try again to keep its place
	}
	if !next.IsZero() {
		o.RetryAfter = next.Sub(now)
	}
	return o
}

// release ends the grant g. Its owner loses it at once. If atLeast is positive, the name stays
// taken for that time. release wakes waiters in both cases, because the name may become free
// earlier than their last try showed.
func (e *resource) release(g *grant, atLeast time.Duration, now time.Time) {
	if atLeast <= 0 {
		e.remove(g)
		return
	}
	g.owner, g.expires = g.owner+driver.KeptOwner, now.Add(atLeast)
	e.wake()
}

// remove ends the grant g, and wakes waiters.
func (e *resource) remove(g *grant) {
	e.grants = slices.DeleteFunc(e.grants, func(other *grant) bool { return other == g })
	e.wake()
}

// purge drops grants and places that have expired.
func (e *resource) purge(now time.Time) {
	before := len(e.grants)
	e.grants = slices.DeleteFunc(e.grants, func(g *grant) bool { return !now.Before(g.expires) })
	if len(e.grants) < before {
		e.wake()
	}
	e.dequeue(func(p *place) bool { return !now.Before(p.until) })
}

// wake wakes all waiters that are not in the queue, and the first waiter in the queue, because
// no other claim in the queue could be granted.
func (e *resource) wake() {
	close(e.freed)
	e.freed = make(chan struct{})
	e.wakeFirst()
}

// idle reports whether e has no data that must be kept. A semaphore and a latch are never idle:
// the number of permits, and the count, are kept without claims.
func (e *resource) idle() bool {
	return len(e.grants) == 0 && len(e.queue) == 0 && e.kind != semaphore && e.kind != latch
}

// live returns the resource with this name, or nil. It first removes the grants and places of
// that resource that have expired.
func (b *Backend) live(name string, now time.Time) *resource {
	e := b.resources[name]
	if e == nil {
		return nil
	}
	e.purge(now)
	return b.tidy(name, e)
}

// tidy drops e if it is idle, and then returns nil. Otherwise it returns e.
func (b *Backend) tidy(name string, e *resource) *resource {
	if e.idle() {
		delete(b.resources, name)
		return nil
	}
	return e
}

// expect does what live does, and returns driver.ErrMismatch if the name is in use for another
// kind than k.
func (b *Backend) expect(name string, k kind, now time.Time) (*resource, error) {
	e := b.live(name, now)
	if e != nil && e.kind != k {
		return nil, fmt.Errorf("memhold: %q is a %s, and no %s: %w", name, e.kind, k, driver.ErrMismatch)
	}
	return e, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sooner returns the earlier one of two times; a zero time does not count.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
