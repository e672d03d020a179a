package memhold

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// kind is what a name is used for. As long as a name is in use it has one.
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

// entry is a name in use. freed is closed whenever something of it becomes free,
// and made again, so a waiter that was notified of it cannot miss a change, however late it
// starts to wait.
type entry struct {
	kind    kind
	grants  []*grant // in the order in which they were given
	queue   []*place // fair claims that wait, in the order in which they came
	permits int      // of a semaphore
	count   int64    // of a latch
	freed   chan struct{}
}

func newEntry(k kind) *entry { return &entry{kind: k, freed: make(chan struct{})} }

// grant is one hold of a name.
type grant struct {
	owner   string
	client  string
	seq     uint64
	note    string
	mode    driver.Mode
	holds   int
	token   uint64 // the first
	since   time.Time
	expires time.Time
}

// extend records what c asks for. It never shortens the lease.
func (g *grant) extend(c driver.Claim, now time.Time) {
	g.holds = max(c.Count, 1)
	g.expires = later(g.expires, now.Add(c.TTL))
}

// held returns owner's grant, or nil.
func (e *entry) held(owner string) *grant {
	for _, g := range e.grants {
		if g.owner == owner {
			return g
		}
	}
	return nil
}

// exclusive returns the grant that keeps everybody else out, or nil.
func (e *entry) exclusive() *grant {
	for _, g := range e.grants {
		if g.mode == driver.Exclusive {
			return g
		}
	}
	return nil
}

// beside reports whether c belongs to the holder of e exclusively.
func (e *entry) beside(c driver.Claim) bool {
	x := e.exclusive()
	return x != nil && c.Mode == driver.Shared && x.owner == c.Beside
}

// admits reports whether there is room for c among the present grants.
func (e *entry) admits(c driver.Claim) bool {
	switch {
	case e.kind == semaphore:
		return len(e.grants) < e.permits
	case c.Mode == driver.Shared:
		return e.exclusive() == nil || e.beside(c)
	default:
		return len(e.grants) == 0
	}
}

// enter makes room for c, and reports whether there is any. A fair claim gets in
// when it is the first of the queue, and stays there until then. One that is
// granted beside its own hold has its turn already: in the queue it would wait
// for itself.
func (e *entry) enter(c driver.Claim, now time.Time) bool {
	if !c.Fair || e.beside(c) {
		return e.admits(c)
	}
	if c.NoQueue && e.find(c.Owner) < 0 {
		return len(e.queue) == 0 && e.admits(c)
	}
	if e.line(c, now) > 0 || !e.admits(c) {
		return false
	}
	e.leave(c.Owner)
	return true
}

// refusal is the answer to c, which did not get in.
func (e *entry) refusal(c driver.Claim, now time.Time) driver.Outcome {
	o := driver.Outcome{Ahead: ahead{changed: e.freed}}
	var next time.Time
	for _, g := range e.grants {
		next = sooner(next, g.expires)
	}
	if len(e.grants) > 0 {
		o.Holder, o.HeldFor, o.Kept = e.grants[0].note, now.Sub(e.grants[0].since), driver.Kept(e.grants[0].owner)
	}
	if i := e.find(c.Owner); i >= 0 {
		o.Queued = true
		o.Ahead = ahead{changed: e.queue[i].turn, before: i}
		for _, p := range e.queue[:i] {
			next = sooner(next, p.until)
		}
		next = sooner(next, now.Add(presence/3)) // to be present
	}
	if !next.IsZero() {
		o.RetryAfter = next.Sub(now)
	}
	return o
}

// release ends the grant g for its owner, and for all once atLeast has passed. Waiters
// are woken in any case: it may end sooner than they know.
func (e *entry) release(g *grant, atLeast time.Duration, now time.Time) {
	if atLeast <= 0 {
		e.remove(g)
		return
	}
	g.owner, g.expires = g.owner+driver.KeptOwner, now.Add(atLeast)
	e.wake()
}

// remove ends the grant g and wakes waiters for that.
func (e *entry) remove(g *grant) {
	e.grants = slices.DeleteFunc(e.grants, func(other *grant) bool { return other == g })
	e.wake()
}

// purge drops grants and places that have lapsed.
func (e *entry) purge(now time.Time) {
	before := len(e.grants)
	e.grants = slices.DeleteFunc(e.grants, func(g *grant) bool { return !now.Before(g.expires) })
	if len(e.grants) < before {
		e.wake()
	}
	e.dismiss(func(p *place) bool { return !now.Before(p.until) })
}

// wake wakes waiters when something became free: of the queue the first
// alone, since nobody else of it could get in.
func (e *entry) wake() {
	close(e.freed)
	e.freed = make(chan struct{})
	e.call()
}

// idle reports whether nothing is worth keeping. How many permits there are and
// how far a latch has counted outlives every claim.
func (e *entry) idle() bool {
	return len(e.grants) == 0 && len(e.queue) == 0 && e.kind != semaphore && e.kind != latch
}

// live returns the entry of name, or nil. What has lapsed is dropped.
func (b *Backend) live(name string, now time.Time) *entry {
	e := b.entries[name]
	if e == nil {
		return nil
	}
	e.purge(now)
	return b.tidy(name, e)
}

// tidy forgets the entry e of name if nothing of it is left, and returns what
// is.
func (b *Backend) tidy(name string, e *entry) *entry {
	if e.idle() {
		delete(b.entries, name)
		return nil
	}
	return e
}

// expect is live for a name that must be of kind k, if it is in use at all.
func (b *Backend) expect(name string, k kind, now time.Time) (*entry, error) {
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

// sooner returns the earlier of both; a zero time does not count.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
