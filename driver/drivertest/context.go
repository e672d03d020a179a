package drivertest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// callCancelled calls the function `call` with a context that has ended. That function calls
// the store, and returns the errors of these calls. Each error must be the error of the
// context, or nil, because a store need not check the context.
func (p *probe) callCancelled(what string, call func(context.Context) []error) {
	p.Helper()
	what += " with a cancelled context"
	p.promptly(what, func() {
		for _, err := range call(p.Cancelled()) {
			if errors.Is(err, driver.ErrGone) {
				p.Errorf("%s: got %v, want none that is ErrGone", what, err)
			}
			if err != nil {
				p.MustBeCancelled(err, what)
			}
		}
	})
}

func tryHonoursContext(p *probe) {
	c := p.Claim()
	p.Remember(c)
	p.callCancelled("Try", func(ctx context.Context) []error {
		o, err := p.b.Try(ctx, c)
		if err == nil && o.Granted {
			p.Errorf("Try with a cancelled context: granted, want an error")
		}
		return []error{err}
	})
	p.Withdraw(indeterminate(c))
	p.MustGrant(p.Claim(), "after a cancelled Try was released")
}

func renewHonoursContext(p *probe) {
	c := p.Claim()
	p.MustGrant(c, "of a free name")
	p.callCancelled("Renew of a held claim", func(ctx context.Context) []error {
		answers, err := p.b.Renew(ctx, []driver.Claim{c})
		for _, a := range answers {
			err = errors.Join(err, a.Err)
		}
		return []error{err}
	})
	p.MustRenew(c, "after a cancelled Renew")
	p.MustRelease(c, "after a cancelled Renew")
}

func releaseHonoursContext(p *probe) {
	c := p.Claim()
	p.MustGrant(c, "of a free name")
	p.callCancelled("Release of a held claim", func(ctx context.Context) []error { return []error{p.b.Release(ctx, c)} })
	p.Withdraw(c)
	p.MustGrant(p.Claim(), "after a cancelled Release was repeated")
}
