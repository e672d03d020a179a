package ordered

import "time"

// IDOf returns the ID of a claim of its owner.
func IDOf(owner string) string { return idOf(owner) }

// Claims returns how many claims the Engine knows.
func (e *Engine) Claims() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.claims)
}

// SetWall has the Engine read another wall clock.
func (e *Engine) SetWall(now func() time.Time) { e.clock.Wall = now }
