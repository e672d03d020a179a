// Package background counts goroutines that outlive the call that started them, so that a
// caller can wait for their end.
package background

import (
	"context"
	"fmt"
	"sync"
)

// Group counts tasks. The zero Group is ready to use, and may be used again after all tasks
// have ended.
type Group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when the last task ends; nil while there is no task
}

// Go runs fn as a task, in a new goroutine.
func (g *Group) Go(fn func()) {
	g.Begin()
	go func() {
		defer g.End()
		fn()
	}()
}

// Begin counts a task that runs in a goroutine which the Group did not start. Each Begin
// needs one End.
func (g *Group) Begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		g.idle = make(chan struct{})
	}
	g.n++
}

// End ends a task that Begin counted.
func (g *Group) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		close(g.idle)
		g.idle = nil
	}
}

// Wait returns nil as soon as no task runs. If ctx ends first, Wait returns an error with the
// error of ctx and the number of tasks.
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
