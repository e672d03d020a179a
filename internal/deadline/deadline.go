// Package deadline has a context with a deadline that rarely needs a timer.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is a context with a deadline. Its Done channel and its timer are made when Done is
// called for the first time. So they cost nothing for a caller that uses only Err and Deadline,
// or for a caller that waits for the end of Parent and compares the deadline with the clock
// itself.
//
// After a call of Done, the parent refers to the Context until the deadline of the Context, or
// until End.
type Context struct {
	parent context.Context // Init sets it
	at     time.Time

	mu    sync.Mutex
	late  bool  // the deadline has passed before the field `made` was set
	ended bool  // End was called before the field `made` was set
	made  *made // otherwise it says whether the Context has ended, if it is not nil; nil until Done or Value needs it
}

// made is a context of package context that ends when the Context does.
type made struct {
	context.Context
	cancel context.CancelFunc
}

// New returns a Context that ends when `parent` ends, at the given time, or at a call of End,
// whichever comes first.
func New(parent context.Context, at time.Time) *Context {
	return &Context{parent: parent, at: at}
}

// Init makes c like a Context that New returns. c must not have been used before. Init is for a
// Context that is a field of another value.
func (c *Context) Init(parent context.Context, at time.Time) { c.parent, c.at = parent, at }

// Parent returns the context that was given to New.
func (c *Context) Parent() context.Context { return c.parent }

// Deadline returns the deadline of the Context or the deadline of its parent, whichever is
// earlier.
func (c *Context) Deadline() (time.Time, bool) {
	if at, ok := c.parent.Deadline(); ok && at.Before(c.at) {
		return at, true
	}
	return c.at, true
}

// Done returns a channel that is closed when the Context has ended.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.make().Done()
}

// Err returns nil until the Context has ended. Then it returns the parent's error,
// context.DeadlineExceeded, or context.Canceled after End.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.own() != nil:
	case c.made != nil:
		return c.made.Err()
	case c.parent.Err() != nil:
		return c.parent.Err()
	default:
		c.late = !time.Now().Before(c.at)
	}
	return c.own()
}

// own returns the error with which the Context has ended by itself.
func (c *Context) own() error {
	switch {
	case c.late:
		return context.DeadlineExceeded
	case c.ended:
		return context.Canceled
	}
	return nil
}

// Value returns the parent's value for key.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	// After the end, package context may call Value with a key of its own: to find the cause of
	// the end, or the context to which it adds a derived context. Only a context of that
	// package has a value for this key, so Value makes one now.
	if c.late || c.ended {
		c.make()
	}
	made := c.made
	c.mu.Unlock()
	if made != nil {
		return made.Value(key)
	}
	return c.parent.Value(key)
}

// End ends the Context with context.Canceled, unless it has ended before. It may be called
// more than once. Err may return context.Canceled although the deadline had passed before
// End, if neither Err nor Done was called in between.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.made != nil:
		c.made.cancel()
	case !c.late && c.parent.Err() == nil:
		c.ended = true
	}
}

// make returns c.made, and creates it if it is nil. If the Context has ended by itself, the new
// context does not depend on the end of the parent, which may have come later.
func (c *Context) make() context.Context {
	switch {
	case c.made != nil:
	case c.late || c.ended:
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.parent))
		cancel(c.own())
		c.made = &made{ctx, func() {}}
	default:
		ctx, cancel := context.WithDeadline(c.parent, c.at)
		c.made = &made{ctx, cancel}
	}
	return c.made
}
