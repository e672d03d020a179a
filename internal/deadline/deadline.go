// Package deadline has a context with a deadline that costs nothing until
// somebody waits for it.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is a context with a deadline whose Done channel and timer are made
// when Done is called for the first time. A caller of Err or Deadline, or
// waits for the end of Parent and looks after the deadline itself, pays for
// neither.
//
// What is made by Done holds a place in its parent until the deadline or End.
type Context struct {
	parent context.Context
	at     time.Time

	mu    sync.Mutex
	state state
	made  *made // nil until it is needed
}

// made is a context of package context that ends when the Context does.
type made struct {
	context.Context
	cancel context.CancelFunc
}

// state is what is known of the end while there is no context that knows it.
type state uint8

const (
	running state = iota
	late          // the deadline has passed
	ended         // by End
	orphan        // the parent has ended
)

var _ context.Context = (*Context)(nil)

// New returns a Context that ends with parent, at the given time, or with End,
// whichever comes first.
func New(parent context.Context, at time.Time) *Context {
	c := new(Context)
	c.Init(parent, at)
	return c
}

// Init makes of a Context, which is part of something else and was not used yet,
// what New returns.
func (c *Context) Init(parent context.Context, at time.Time) { c.parent, c.at = parent, at }

// Parent returns the context that was given to New.
func (c *Context) Parent() context.Context { return c.parent }

// Deadline returns the earlier one of the Context's own deadline and that of its
// parent.
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

// Err returns nil until the Context has ended, then why: the parent's error,
// context.DeadlineExceeded, or context.Canceled after End. Without Done it is
// the clock that decides, not a timer.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check(true)
	switch c.state {
	case late:
		return context.DeadlineExceeded
	case ended:
		return context.Canceled
	case orphan:
		return c.parent.Err()
	}
	if c.made != nil {
		return c.made.Err()
	}
	return nil
}

// Value returns the parent's value for key.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	// Once there is something to ask, package context finds in it, under a key of
	// its own, where to enter children and the cause of the end.
	if c.made == nil && (c.state == late || c.state == ended) {
		c.make()
	}
	made := c.made
	c.mu.Unlock()
	if made != nil {
		return made.Value(key)
	}
	return c.parent.Value(key)
}

// End ends the Context with context.Canceled, unless it has ended before. It may
// be called more than once. A deadline that has passed without anybody having
// asked does not count.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil {
		c.made.cancel()
		return
	}
	if c.check(false); c.state == running {
		c.state = ended
	}
}

// check finds out whether the Context has ended, if nothing else would tell.
func (c *Context) check(clock bool) {
	switch {
	case c.state != running || c.made != nil:
	case c.parent.Err() != nil:
		c.state = orphan
	case clock && !time.Now().Before(c.at):
		c.state = late
	}
}

// make returns a context that ends when c does. One that is made after the end
// has nothing to do with the parent's end, which may have come later.
func (c *Context) make() context.Context {
	switch {
	case c.made != nil:
	case c.state == late || c.state == ended:
		ctx, end := context.WithCancelCause(context.WithoutCancel(c.parent))
		c.made = &made{ctx, func() { end(nil) }}
		if c.state == late {
			end(context.DeadlineExceeded)
		}
		c.made.cancel()
	default:
		ctx, cancel := context.WithDeadline(c.parent, c.at)
		c.made = &made{ctx, cancel}
	}
	return c.made
}
