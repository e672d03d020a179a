package memhold

import (
	"maps"
	"time"
)

// Clone returns a store with the holds of b and without its queues, like a standby.
func (b *Backend) Clone() *Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := New()
	maps.Copy(c.tombstones, b.tombstones)
	for name, e := range b.resources {
		copied := newResource(e.kind)
		copied.permits, copied.count = e.permits, e.count
		for _, g := range e.grants {
			grant := *g
			copied.grants = append(copied.grants, &grant)
		}
		c.resources[name] = copied
	}
	return c
}

// Holders returns how many grants of the name have not ended.
func (b *Backend) Holders(name string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.resources[name]; e != nil {
		for _, g := range e.grants {
			if time.Now().Before(g.expires) {
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
