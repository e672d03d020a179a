package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// CountDownLatch describes a latch. TrySet sets its count once, CountDown lowers it, and
// Wait returns when it reaches 0. A latch at 0 is open and has no key in the store; it
// can be set again.
//
// A latch has no holder and no lease. If a process dies before its CountDown, the count stays
// too high, and Wait does not return. Give Wait a context with a deadline.
type CountDownLatch struct {
	locker *Locker
	name   string
}

// CountDownLatch returns the count-down latch `name`. It does no I/O.
func (l *Locker) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{locker: l, name: name}
}

// Name returns the name of the latch.
func (c *CountDownLatch) Name() string { return c.name }

// TrySet sets the count to n, which must be 1 or more, and returns true. It returns false, and
// changes nothing, if the count is not 0.
func (c *CountDownLatch) TrySet(ctx context.Context, n int64) (set bool, err error) {
	if n < 1 {
		return false, fmt.Errorf("set latch %q: a latch with a count of %d would be open from the start; use 1 or more", c.name, n)
	}
	call, _ := c.locker.nextOwner()
	err = c.do(ctx, "set", func(ctx context.Context, store driver.Latcher) error {
		set, err = store.SetCount(ctx, c.name, call, n)
		return err
	})
	return set && err == nil, err
}

// CountDown lowers the count by one. If the reply is lost, CountDown repeats the call, but the
// store counts it only once. On an open latch it changes nothing.
func (c *CountDownLatch) CountDown(ctx context.Context) error {
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

// Wait waits until the latch is open and returns nil. If ctx ends first, it returns ctx's
// error.
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
