package drivertest

import (
	"context"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// mutant is memhold with a bug: each function that is not nil replaces the right one, which
// Backend still has.
type mutant struct {
	*memhold.Backend
	try     func(context.Context, driver.Claim) (driver.Outcome, error)
	renew   func(context.Context, driver.Claim) driver.Renewal
	batch   func(context.Context, []driver.Claim) ([]driver.Renewal, error)
	release func(context.Context, driver.Claim) error
	wait    func(context.Context, driver.Claim, driver.Outcome) error
	info    func(*driver.Info)
	grants  driver.Outcome // what a Waiter says was granted
	tryAll  func(context.Context, []driver.Claim) []driver.Attempt
	endAll  func(context.Context, []driver.Claim) []error
	resize  func(context.Context, string, int) error
	permits func(context.Context, string) (int, int, error)
	latch   driver.Latcher
	notify  func(context.Context, string, func(uint64)) error
}

func (m *mutant) Info() driver.Info {
	info := m.Backend.Info()
	if m.info != nil {
		m.info(&info)
	}
	return info
}

func (m *mutant) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if m.try != nil {
		return m.try(ctx, c)
	}
	return m.Backend.Try(ctx, c)
}

func (m *mutant) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	switch {
	case m.batch != nil:
		return m.batch(ctx, cs)
	case m.renew == nil:
		return m.Backend.Renew(ctx, cs)
	}
	answers := make([]driver.Renewal, len(cs))
	for i, c := range cs {
		answers[i] = m.renew(ctx, c)
	}
	return answers, nil
}

func (m *mutant) Release(ctx context.Context, c driver.Claim) error {
	if m.release != nil {
		return m.release(ctx, c)
	}
	return m.Backend.Release(ctx, c)
}

func (m *mutant) Waiter(c driver.Claim) driver.Waiter {
	if m.wait != nil {
		return waitFunc(func(ctx context.Context, last driver.Outcome) error { return m.wait(ctx, c, last) })
	}
	return granter{m.Backend.Waiter(c), m.grants}
}

func (m *mutant) TryAll(ctx context.Context, cs []driver.Claim) []driver.Attempt {
	if m.tryAll != nil {
		return m.tryAll(ctx, cs)
	}
	return m.Backend.TryAll(ctx, cs)
}

func (m *mutant) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	if m.endAll != nil {
		return m.endAll(ctx, cs)
	}
	return m.Backend.ReleaseAll(ctx, cs)
}

func (m *mutant) Resize(ctx context.Context, name string, permits int) error {
	if m.resize != nil {
		return m.resize(ctx, name, permits)
	}
	return m.Backend.Resize(ctx, name, permits)
}

func (m *mutant) Permits(ctx context.Context, name string) (total, free int, err error) {
	if m.permits != nil {
		return m.permits(ctx, name)
	}
	return m.Backend.Permits(ctx, name)
}

// latches returns the store of the latches.
func (m *mutant) latches() driver.Latcher {
	if m.latch != nil {
		return m.latch
	}
	return m.Backend
}

func (m *mutant) SetCount(ctx context.Context, name, call string, n int64) (bool, error) {
	return m.latches().SetCount(ctx, name, call, n)
}

func (m *mutant) CountDown(ctx context.Context, name, call string) error {
	return m.latches().CountDown(ctx, name, call)
}

func (m *mutant) Count(ctx context.Context, name string) (int64, error) {
	return m.latches().Count(ctx, name)
}

func (m *mutant) LatchWaiter(name string) driver.Waiter { return m.latches().LatchWaiter(name) }

func (m *mutant) Notify(ctx context.Context, client string, hint func(uint64)) error {
	if m.notify != nil {
		return m.notify(ctx, client, hint)
	}
	return m.Backend.Notify(ctx, client, hint)
}

type waitFunc func(context.Context, driver.Outcome) error

func (f waitFunc) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	return driver.Outcome{}, f(ctx, last)
}

// granter is a Waiter that returns a grant when it wakes.
type granter struct {
	driver.Waiter
	granted driver.Outcome
}

func (g granter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if _, err := g.Waiter.Wait(ctx, last); err != nil {
		return driver.Outcome{}, err
	}
	return g.granted, nil
}

func (f waitFunc) Close() {}

// rightRenew renews one claim correctly.
func (m *mutant) rightRenew(ctx context.Context, c driver.Claim) driver.Renewal {
	answers, err := m.Backend.Renew(ctx, []driver.Claim{c})
	if err != nil {
		return driver.Renewal{Err: err}
	}
	return answers[0]
}

// holds returns the holds of name.
func (m *mutant) holds(ctx context.Context, name string) []admin.Hold {
	records, err := m.Get(ctx, name)
	if err != nil {
		return nil
	}
	return records[0].Holds
}

// asHolder returns c as the holder of its name.
func (m *mutant) asHolder(ctx context.Context, c driver.Claim) driver.Claim {
	if hs := m.holds(ctx, c.Name); len(hs) == 1 {
		c.Owner = hs[0].Owner
	}
	return c
}
