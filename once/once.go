// Package once lets one caller make a missing value, while callers in any number of processes
// ask for that value. A cache needs this if many callers ask at the same time for a key that
// has expired.
//
// The package has no cache of its own. The caller decides where values are kept, and when a
// value is stale:
//
//	price, err := once.Do(ctx, locker.Mutex("price/"+sku), get, fill)
//	// get:  func(context.Context) (int, once.State, error)
//	// fill: func(context.Context, *holdfast.Lock) (int, error)
package once

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/alone"
)

// State is the state of a value in a cache.
type State int

// The states of a value.
const (
	Missing State = iota // there is no value, so callers wait for one
	Stale                // there is a value to return now, and one caller should make a new one
	Fresh                // there is a value, and nothing has to be done
)

// staleLimit is how long a caller that has a stale value asks for the lock.
const staleLimit = 250 * time.Millisecond

// Do returns the value that the function `get` finds. If the value is missing, one caller among
// all processes holds m and calls the function `fill`, while the others wait. Each of the
// others then calls `get` again, and returns what it finds.
//
// If the value is stale, one caller calls `fill`, and the others return the stale value. A
// caller that has a stale value asks for the lock once, for 250 ms at most, whatever the option
// Wait says. If the store does not answer in that time, the caller returns the stale value. So
// if the store always needs longer, nobody replaces stale values: let `get` report a value that
// is too old as Missing.
//
// The function `fill` makes the value, stores it where `get` finds it, and returns it. The
// context of `fill` ends when ctx ends, and when the lock is lost. If ctx may end before a value
// is made, use DoDetached: with Do, each waiter begins to fill when the ctx of the one before has
// ended. If a process is paused in `fill`, it may write after another process has stored a newer
// value. To refuse such a write, store lock.Token beside the value, and let a write with a
// smaller token change nothing.
//
// If `fill` fails, its caller gets the error, and the next waiter calls `fill` again. If each
// call of `fill` fails, a hundred waiters make a hundred calls, one after the other. To avoid
// that, let `fill` store the failure for a moment, as a value of its own, or give the option
// Wait. The same holds if `get` does not find what `fill` has stored, for example because the
// cache has no room for it, or reads from a replica that is behind: each waiter makes its own
// value.
//
// If the first call of `get` fails, Do returns its error. So let `get` report a value that it
// cannot decode as Missing: otherwise nobody ever replaces that value. If the last call of `get`
// that succeeded found a stale value, Do returns that value in place of a later error: of `fill`,
// of the lock, of ctx or of another `get`. So let `fill` log its errors; Options.Observe of the
// Locker reports the errors of the store. If there is no stale value, and the lock was lost
// while `fill` ran, the error is holdfast.ErrLost.
//
// The options are those of the lock. With Wait, Do returns ErrBusy if the value is missing
// and the wait is over. Do returns an error for the read side of a RWMutex.
func Do[T any](ctx context.Context, m *holdfast.Mutex,
	get func(context.Context) (T, State, error),
	fill func(context.Context, *holdfast.Lock) (T, error),
	opts ...holdfast.Option,
) (T, error) {
	c := &call[T]{mutex: m, get: get, fill: fill, opts: opts}
	if done, err := c.look(ctx); done {
		return c.seen, err
	}
	return c.make(ctx, ctx, func() {})
}

// DoDetached is Do with a `fill` that outlives its caller. It runs in a goroutine of its own, and
// its context does not end with ctx. So a value that takes longer than the deadlines of its
// callers is made once, and the callers that still wait get it.
//
// A caller that has a stale value, and gets the lock, returns the stale value at once, while
// `fill` goes on. A caller without a value waits for `fill`. If ctx ends first, it returns the
// error of ctx.
//
// Nothing ends `fill` but the loss of the lock: give holdfast.AtMost to limit its time. If the
// program ends while `fill` runs, the name stays taken until the lease ends. A panic of `fill`
// ends the program, as in each goroutine. There is at most one such goroutine for each lock that
// is held.
func DoDetached[T any](ctx context.Context, m *holdfast.Mutex,
	get func(context.Context) (T, State, error),
	fill func(context.Context, *holdfast.Lock) (T, error),
	opts ...holdfast.Option,
) (T, error) {
	c := &call[T]{mutex: m, get: get, fill: fill, opts: opts}
	if done, err := c.look(ctx); done {
		return c.seen, err
	}
	type answer struct {
		made T
		err  error
	}
	begun, ended := make(chan struct{}), make(chan answer, 1)
	detached := *c
	go func() {
		made, err := detached.make(ctx, context.WithoutCancel(ctx), func() { close(begun) })
		ended <- answer{made, err}
	}()
	select {
	case a := <-ended: // without the lock, for example because ctx has ended
		return a.made, a.err
	case <-begun:
	}
	if c.state == Stale {
		return c.seen, nil
	}
	select {
	case a := <-ended:
		return a.made, a.err
	case <-ctx.Done():
		return c.seen, fmt.Errorf("once %q: the value is not made yet: %w", m.Name(), ctx.Err())
	}
}

// call is one call of Do.
type call[T any] struct {
	mutex *holdfast.Mutex
	get   func(context.Context) (T, State, error)
	fill  func(context.Context, *holdfast.Lock) (T, error)
	opts  []holdfast.Option

	seen  T // what the last call of get found
	state State
}

// look calls get. It reports whether the call is done, because there is a fresh value or an
// error.
func (c *call[T]) look(ctx context.Context) (done bool, err error) {
	if err := alone.Check(c.mutex); err != nil {
		return true, fmt.Errorf("once %q: %w", c.mutex.Name(), err)
	}
	c.seen, c.state, err = c.get(ctx)
	return err != nil || c.state == Fresh, err
}

// make asks for the lock in the context `ask`, and makes the value in ctx. It calls begin when it
// has the lock. It returns a stale value in place of an error.
func (c *call[T]) make(ask, ctx context.Context, begin func()) (T, error) {
	opts := c.opts
	if c.state == Stale {
		limited, cancel := context.WithTimeout(ask, staleLimit)
		defer cancel()
		ask, opts = limited, slices.Concat(opts, []holdfast.Option{holdfast.Wait(0)})
	}
	made := c.seen
	err := c.mutex.Do(ask, func(_ context.Context, lock *holdfast.Lock) error {
		begin()
		ctx := lock.Context(ctx)
		now, found, err := c.get(ctx) // another caller may have made the value meanwhile
		if err != nil {
			return err
		}
		if c.seen, c.state = now, found; found == Fresh {
			made = now
			return nil
		}
		made, err = c.fill(ctx, lock)
		return err
	}, opts...)
	if err != nil && c.state == Stale {
		return c.seen, nil
	}
	return made, err
}
