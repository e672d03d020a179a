// Package document has the state of one name in a store that knows nothing of locks: who holds the
// name, who waits for it, how many permits it has, the count of a latch, and the last fencing
// token.
//
// A Document is a state machine. It has no I/O, no clock and no goroutine: its methods get the time,
// change the state, and return what the caller has to answer. Package memhold keeps Documents in
// memory.
package document

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Presence is how long a fair claim keeps its place in the queue without another try or a renewal.
const Presence = 5 * time.Second

// Kind is what a name is used for.
type Kind string

// A name is used for one kind at a time. The zero Kind means that the name is not in use.
const (
	// Mutex has one holder. Its claims may be fair or not.
	Mutex Kind = "mutex"
	// ReadWrite has one writer or any number of readers.
	ReadWrite Kind = "read-write lock"
	// Semaphore has Document.Permits holders at most.
	Semaphore Kind = "semaphore"
	// Latch has no holders but Document.Count.
	Latch Kind = "count-down latch"
)

// KindOf returns the kind of a name that c claims.
func KindOf(c driver.Claim) Kind {
	switch {
	case c.Mode == driver.Permit:
		return Semaphore
	case c.ReadWrite || c.Mode == driver.Shared:
		return ReadWrite
	default:
		return Mutex
	}
}

// Document is the state of a name. The zero Document is that of a name that was never used.
type Document struct {
	Kind    Kind
	Grants  []Grant // in the order in which they were given
	Queue   []Place // fair claims that wait, in the order in which they came
	Waiting []Mark  // claims without a place in the queue that wait, see TryInTurn
	Permits int     // the number of all permits of a semaphore
	Count   int64   // the count of a latch
	Last    uint64  // the last fencing token

	Answers []Answer // what calls on a latch have returned, see SetCountOnce
	Forced  []Forced // the grants that Force has ended

	Freed    time.Time // when a grant last ended, or permits were added
	Revision uint64    // a number of the caller, see Grant.Renewed

	woken []string // see TakeWoken
}

// Grant is one hold of a name.
type Grant struct {
	Owner   string
	Note    string
	Mode    driver.Mode
	Holds   int
	Token   uint64 // the first token that was reserved with the grant
	Since   time.Time
	Expires time.Time
	Renewed uint64 // Document.Revision when the owner last set Expires

	Client string // of the claim
	Seq    uint64
}

// Place is the place of a fair claim in the queue.
type Place struct {
	Owner   string
	Note    string
	Mode    driver.Mode
	Expires time.Time
	Renewed uint64 // Document.Revision when Expires was set
	Client  string // of the claim
}

// Everybody is the element of TakeWoken that stands for all claims that wait without a place in the
// queue.
const Everybody = ""

// TakeWoken returns the owners of claims for which another Try may now have another answer, since
// the last call of TakeWoken: Everybody, and owners of fair claims. An owner may be there twice.
func (d *Document) TakeWoken() []string {
	woken := d.woken
	d.woken = nil
	return woken
}

// free records that grants ended at the time t. It wakes all claims without a place in the queue,
// and the first claim in the queue. No other claim in the queue could be granted.
func (d *Document) free(t time.Time) {
	if t.After(d.Freed) {
		d.Freed = t
	}
	d.woken = append(d.woken, Everybody)
	d.wakeFirst()
}

func (d *Document) wakeFirst() {
	if len(d.Queue) > 0 {
		d.woken = append(d.woken, d.Queue[0].Owner)
	}
}

// Held returns the grant of an owner, or nil. The grant may be changed until the next call of a
// method.
func (d *Document) Held(owner string) *Grant {
	i := d.grantOf(owner)
	if i < 0 {
		return nil
	}
	return &d.Grants[i]
}

// grantOf returns the index of the grant of an owner, or -1.
func (d *Document) grantOf(owner string) int {
	return slices.IndexFunc(d.Grants, func(g Grant) bool { return g.Owner == owner })
}

// Exclusive returns the grant that excludes all others, or nil.
func (d *Document) Exclusive() *Grant {
	i := slices.IndexFunc(d.Grants, func(g Grant) bool { return g.Mode == driver.Exclusive })
	if i < 0 {
		return nil
	}
	return &d.Grants[i]
}

// Position returns how many claims are before an owner in the queue, or -1 if the owner has no
// place.
func (d *Document) Position(owner string) int {
	return slices.IndexFunc(d.Queue, func(p Place) bool { return p.Owner == owner })
}

// InUse reports whether the document says more than the last token. A semaphore, and a latch that
// is not open, stay in use without claims: the number of permits, and the count, are kept.
func (d *Document) InUse() bool { return d.Kind != "" }

// Expect returns driver.ErrMismatch if the name is in use for another kind than k.
func (d *Document) Expect(name string, k Kind) error {
	if d.Kind != "" && d.Kind != k {
		return fmt.Errorf("%q is a %s, and no %s: %w", name, d.Kind, k, driver.ErrMismatch)
	}
	return nil
}

// tidy records that the name is not in use any more, if it is not.
func (d *Document) tidy() {
	switch {
	case len(d.Grants) > 0 || len(d.Queue) > 0:
	case d.Kind == Semaphore || d.Kind == Latch && d.Count > 0:
	default:
		d.Kind = ""
	}
}

// Purge removes what has expired at the time `now`.
func (d *Document) Purge(now time.Time) {
	before, last := len(d.Grants), time.Time{}
	d.Grants = slices.DeleteFunc(d.Grants, func(g Grant) bool {
		if now.Before(g.Expires) {
			return false
		}
		last = later(last, g.Expires)
		return true
	})
	if len(d.Grants) < before {
		d.free(last)
	}
	d.dequeue(func(p Place) bool { return !now.Before(p.Expires) })
	d.Answers = slices.DeleteFunc(d.Answers, func(a Answer) bool { return !now.Before(a.Expires) })
	d.Forced = slices.DeleteFunc(d.Forced, func(f Forced) bool { return !now.Before(f.Expires) })
	d.tidy()
}

// Stale reports whether Purge at the time `now` would change who holds the name, or who has a place in
// the queue.
func (d *Document) Stale(now time.Time) bool {
	return slices.ContainsFunc(d.Grants, func(g Grant) bool { return !now.Before(g.Expires) }) ||
		slices.ContainsFunc(d.Queue, func(p Place) bool { return !now.Before(p.Expires) })
}

// dequeue removes from the queue the places for which the function `gone` returns true. It wakes
// their claims, because a claim that still waits needs a new place. If the queue then has another
// first claim, dequeue wakes that claim, too.
func (d *Document) dequeue(gone func(Place) bool) {
	if len(d.Queue) == 0 {
		return
	}
	first := d.Queue[0].Owner
	d.Queue = slices.DeleteFunc(d.Queue, func(p Place) bool {
		if !gone(p) {
			return false
		}
		d.woken = append(d.woken, p.Owner)
		return true
	})
	if len(d.Queue) > 0 && d.Queue[0].Owner != first {
		d.wakeFirst()
	}
}

// Clone returns a copy that shares nothing with d. It has nothing for TakeWoken.
func (d *Document) Clone() *Document {
	c := *d
	c.woken = nil
	c.Grants, c.Queue, c.Waiting = slices.Clone(d.Grants), slices.Clone(d.Queue), slices.Clone(d.Waiting)
	c.Answers, c.Forced = slices.Clone(d.Answers), slices.Clone(d.Forced)
	return &c
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
