package memhold

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/document"
)

// What the tests call by the names of this package.
type kind = document.Kind

const (
	mutex     = document.Mutex
	readWrite = document.ReadWrite
	semaphore = document.Semaphore
	latch     = document.Latch
	presence  = document.Presence
)

// Clone returns a store with the holds of b and without its queues, like a standby.
func (b *Backend) Clone() *Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := New()
	maps.Copy(c.tombstones, b.tombstones)
	for name, e := range b.resources {
		copied := newResource()
		copied.Document = e.Document
		copied.Grants, copied.Queue = slices.Clone(e.Grants), nil
		c.resources[name] = copied
	}
	return c
}

// Holders returns how many grants of the name have not ended.
func (b *Backend) Holders(name string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.resources[name]; e != nil {
		for _, g := range e.Grants {
			if time.Now().Before(g.Expires) {
				n++
			}
		}
	}
	return n
}

// After returns b, whose tokens continue those of the Backend before.
func (b *Backend) After(before *Backend) *Backend {
	before.mu.Lock()
	defer before.mu.Unlock()
	b.last = before.last
	return b
}
