// Package background keeps account of goroutines that outlive the call that
// started them, so that somebody can wait for them.
package background

import (
	"context"
	"fmt"
	"sync"
)

// Group counts goroutines, or tasks. The zero Group is ready to use, and may be used again
// after all have ended.
type Group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when the last one ends; nil while there is none
}

// Go runs fn in a goroutine of its own.
func (g *Group) Go(fn func()) {
	g.Begin()
	go func() {
		defer g.End()
		fn()
	}()
}

// Begin counts a task that runs in a goroutine which the Group does not start. Each Begin
// needs one End.
func (g *Group) Begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		g.idle = make(chan struct{})
	}
	g.n++
}

// End counts the task of a Begin no longer.
func (g *Group) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		close(g.idle)
		g.idle = nil
	}
}

// Wait returns nil when none runs, or an error that is ctx's and says how many
// do.
func (g *Group) Wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		n, idle := g.n, g.idle
		g.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("%d tasks still under way: %w", n, ctx.Err())
		}
	}
}
