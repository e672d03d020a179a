package memhold

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/document"
)

// resource is the state of a name in use, with the channels of those who wait for it.
type resource struct {
	document.Document

	// freed is closed, and replaced by a new channel, whenever another claim may be granted or a
	// latch opens. So a waiter that has the channel misses no change, even if it begins to wait
	// later.
	freed chan struct{}

	// woken has channels of fair claims in the queue, by owner. A channel is closed, and removed,
	// when another try of the claim may be granted, or when the claim has lost its place. The map is
	// nil before the first of them.
	woken map[string]chan struct{}
}

func newResource() *resource { return &resource{freed: make(chan struct{})} }

// wake closes the channels of those whom the last changes concern.
func (e *resource) wake() {
	for _, owner := range e.TakeWoken() {
		if owner == document.Everybody {
			close(e.freed)
			e.freed = make(chan struct{})
		} else if c := e.woken[owner]; c != nil {
			close(c)
			delete(e.woken, owner)
		}
	}
}

// ahead returns what a claim waits for that was not granted.
func (e *resource) ahead(c driver.Claim) ahead {
	before := e.Position(c.Owner)
	if before < 0 {
		return ahead{changed: e.freed}
	}
	if e.woken == nil {
		e.woken = make(map[string]chan struct{})
	}
	if e.woken[c.Owner] == nil {
		e.woken[c.Owner] = make(chan struct{})
	}
	return ahead{changed: e.woken[c.Owner], before: before}
}

// live returns the resource with this name, or nil. It first removes the grants and places of
// that resource that have expired.
func (b *Backend) live(name string, now time.Time) *resource {
	e := b.resources[name]
	if e == nil {
		return nil
	}
	e.Purge(now)
	return b.settle(name, e)
}

// settle wakes those whom the last changes of e concern. It drops e if the name is not in use any
// more, and then returns nil. Otherwise it returns e.
func (b *Backend) settle(name string, e *resource) *resource {
	e.wake()
	if !e.InUse() {
		delete(b.resources, name)
		return nil
	}
	b.resources[name] = e
	return e
}

// open does what live does, but returns a new resource if there is none. The Backend keeps the
// new resource when settle is called for it.
func (b *Backend) open(name string, now time.Time) *resource {
	if e := b.live(name, now); e != nil {
		return e
	}
	return newResource()
}

// failed returns the error of a call that the state of a name does not allow.
func failed(err error) error { return fmt.Errorf("memhold: %w", err) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
