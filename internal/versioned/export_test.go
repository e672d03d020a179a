package versioned

import "time"

// SetWall makes the clock on the wall of e differ from that of others.
func (e *Engine) SetWall(wall func(time.Time) time.Time) { e.wall = wall }
