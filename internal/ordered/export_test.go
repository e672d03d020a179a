package ordered

import "time"

// IDOf returns the ID of a claim of its owner.
func IDOf(owner string) string { return idOf(owner) }

// SetWall has the Engine read another wall clock.
func (e *Engine) SetWall(now func() time.Time) { e.clock.Wall = now }
