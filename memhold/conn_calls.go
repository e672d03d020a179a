package memhold

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
)

// The calls of a Conn are those of its Backend, over the connection.

// Info returns what the store can do. No fault changes it.
func (c *Conn) Info() driver.Info { return c.store.Info() }

// Try is Backend.Try over the connection.
func (c *Conn) Try(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
	return over(ctx, c, func() (driver.Outcome, error) { return c.store.Try(ctx, claim) })
}

// TryAll is Backend.TryAll over the connection.
func (c *Conn) TryAll(ctx context.Context, claims []driver.Claim) []driver.Attempt {
	answers, err := over(ctx, c, func() ([]driver.Attempt, error) { return c.store.TryAll(ctx, claims), nil })
	if err != nil {
		answers = make([]driver.Attempt, len(claims))
		for i := range answers {
			answers[i].Err = err
		}
	}
	return answers
}

// Renew is Backend.Renew over the connection.
func (c *Conn) Renew(ctx context.Context, claims []driver.Claim) ([]driver.Renewal, error) {
	return over(ctx, c, func() ([]driver.Renewal, error) { return c.store.Renew(ctx, claims) })
}

// Release is Backend.Release over the connection.
func (c *Conn) Release(ctx context.Context, claim driver.Claim) error {
	_, err := over(ctx, c, func() (struct{}, error) { return struct{}{}, c.store.Release(ctx, claim) })
	return err
}

// ReleaseAll is Backend.ReleaseAll over the connection.
func (c *Conn) ReleaseAll(ctx context.Context, claims []driver.Claim) []error {
	answers, err := over(ctx, c, func() ([]error, error) { return c.store.ReleaseAll(ctx, claims), nil })
	if err != nil {
		answers = make([]error, len(claims))
		for i := range answers {
			answers[i] = err
		}
	}
	return answers
}

// Resize is Backend.Resize over the connection.
func (c *Conn) Resize(ctx context.Context, name string, permits int) error {
	_, err := over(ctx, c, func() (struct{}, error) { return struct{}{}, c.store.Resize(ctx, name, permits) })
	return err
}

// Permits is Backend.Permits over the connection.
func (c *Conn) Permits(ctx context.Context, name string) (total, free int, err error) {
	all, err := over(ctx, c, func() ([2]int, error) {
		total, free, err := c.store.Permits(ctx, name)
		return [2]int{total, free}, err
	})
	return all[0], all[1], err
}

// SetCount is Backend.SetCount over the connection.
func (c *Conn) SetCount(ctx context.Context, name, call string, n int64) (bool, error) {
	return over(ctx, c, func() (bool, error) { return c.store.SetCount(ctx, name, call, n) })
}

// CountDown is Backend.CountDown over the connection.
func (c *Conn) CountDown(ctx context.Context, name, call string) error {
	_, err := over(ctx, c, func() (struct{}, error) { return struct{}{}, c.store.CountDown(ctx, name, call) })
	return err
}

// Count is Backend.Count over the connection.
func (c *Conn) Count(ctx context.Context, name string) (int64, error) {
	return over(ctx, c, func() (int64, error) { return c.store.Count(ctx, name) })
}

// Notify is Backend.Notify over the connection. While no answers arrive, no grant that ends is
// reported, also not later.
func (c *Conn) Notify(ctx context.Context, client string, hint func(seq uint64)) error {
	delay, err := c.begin(ctx)
	if err == nil {
		err = c.send(ctx, delay)
	}
	if err != nil {
		return err
	}
	return c.store.Notify(ctx, client, func(seq uint64) {
		if f, _ := c.current(); !f.deaf {
			hint(seq)
		}
	})
}

// Waiter returns Backend.Waiter over the connection.
func (c *Conn) Waiter(claim driver.Claim) driver.Waiter {
	return connWaiter{c.store.Waiter(claim), c}
}

// LatchWaiter returns Backend.LatchWaiter over the connection.
func (c *Conn) LatchWaiter(name string) driver.Waiter {
	return connWaiter{c.store.LatchWaiter(name), c}
}

// connWaiter is a Waiter of the store whose notifications come over a Conn.
type connWaiter struct {
	driver.Waiter
	conn *Conn
}

// Wait returns when the notification of a change has arrived.
func (w connWaiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	return over(ctx, w.conn, func() (driver.Outcome, error) { return w.Waiter.Wait(ctx, last) })
}
