package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// CountDownLatch describes a latch: it is set to a count once, then Done counts
// down, and whoever waits goes on when it reaches 0. A latch at 0 is open and
// leaves nothing in the store; it can be set again.
//
// A latch has no holder and no lease: the share of a process that dies before
// its Done is missing for ever. Bound Wait by its context.
type CountDownLatch struct {
	locker *Locker
	name   string
}

// CountDownLatch returns the description of a count-down latch.
func (l *Locker) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{locker: l, name: name}
}

// Name returns the name that the latch was described with.
func (c *CountDownLatch) Name() string { return c.name }

// Set sets the count to n, at least 1, and reports whether it did: a latch that
// is counting is left as it is.
func (c *CountDownLatch) Set(ctx context.Context, n int64) (set bool, err error) {
	if n < 1 {
		return false, fmt.Errorf("set latch %q: a count of %d would be open from the start", c.name, n)
	}
	call, _ := c.locker.nextOwner()
	err = c.do(ctx, "set", func(ctx context.Context, store driver.Latcher) error {
		set, err = store.SetCount(ctx, c.name, call, n)
		return err
	})
	return set && err == nil, err
}

// Done counts down by one. A lost reply is asked for again and counts once. On
// an open latch it changes nothing.
func (c *CountDownLatch) Done(ctx context.Context) error {
	call, _ := c.locker.nextOwner()
	return c.do(ctx, "count down", func(ctx context.Context, store driver.Latcher) error {
		return store.CountDown(ctx, c.name, call)
	})
}

// Count returns the count. 0 means that the latch is open.
func (c *CountDownLatch) Count(ctx context.Context) (n int64, err error) {
	err = c.do(ctx, "count", func(ctx context.Context, store driver.Latcher) error {
		n, err = store.Count(ctx, c.name)
		return err
	})
	return n, err
}

// Wait returns nil when the latch is open, or ctx's error.
func (c *CountDownLatch) Wait(ctx context.Context) error {
	var waiter driver.Waiter
	defer func() { closeWaiter(waiter) }()
	for {
		n, err := c.Count(ctx)
		if err != nil || n == 0 {
			return err
		}
		if waiter == nil {
			waiter = c.locker.backend.(driver.Latcher).LatchWaiter(c.name) //nolint:forcetypeassert // Count has checked
		}
		retry.Nap(ctx, waiter, driver.Outcome{}, retry.SleepLimit(c.locker.info.Recheck, 0))
		if ctx.Err() != nil {
			return fmt.Errorf("wait for latch %q at %d: %w", c.name, n, retry.ContextError(ctx))
		}
	}
}

func (c *CountDownLatch) do(ctx context.Context, what string, call func(context.Context, driver.Latcher) error) error {
	err := c.locker.check(c.name)
	store, ok := c.locker.backend.(driver.Latcher)
	if err == nil && (!ok || !c.locker.info.Caps.Latches) {
		err = c.locker.unsupported("latches")
	}
	if err == nil {
		err = retry.Do(ctx, c.locker.ttl, func(ctx context.Context) error { return call(ctx, store) })
	}
	if err != nil {
		return fmt.Errorf("%s latch %q: %w", what, c.name, err)
	}
	return nil
}
