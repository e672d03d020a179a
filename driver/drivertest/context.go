package drivertest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// cancelled returns a context that has ended.
func (p *probe) cancelled() context.Context {
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	return ctx
}

func (p *probe) mustBeCancelled(err error, what string) {
	p.Helper()
	if !errors.Is(err, context.Canceled) {
		p.Errorf("%s: got error %v, want one that is context.Canceled", what, err)
	}
}

func tryHonoursContext(p *probe) {
	c := p.claim()
	p.remember(c)
	p.promptly("Try with a cancelled context", func() {
		o, err := p.b.Try(p.cancelled(), c)
		switch {
		case err != nil:
			p.mustBeCancelled(err, "Try with a cancelled context")
		case o.Granted:
			p.Errorf("Try with a cancelled context: granted, want an error")
		}
	})
	p.withdraw(indeterminate(c))
	p.mustGrant(p.claim(), "after a cancelled Try was released")
}

func renewHonoursContext(p *probe) {
	c := p.claim()
	p.mustGrant(c, "of a free name")
	p.promptly("Renew with a cancelled context", func() {
		answers, err := p.b.Renew(p.cancelled(), []driver.Claim{c})
		for _, a := range answers {
			err = errors.Join(err, a.Err)
		}
		if errors.Is(err, driver.ErrGone) {
			p.Errorf("Renew of a held claim with a cancelled context: got %v, want none that is ErrGone", err)
		}
		if err != nil {
			p.mustBeCancelled(err, "Renew with a cancelled context")
		}
	})
	p.mustRenew(c, "after a cancelled Renew")
	p.mustRelease(c, "after a cancelled Renew")
}

func releaseHonoursContext(p *probe) {
	c := p.claim()
	p.mustGrant(c, "of a free name")
	p.promptly("Release with a cancelled context", func() {
		err := p.b.Release(p.cancelled(), c)
		if errors.Is(err, driver.ErrGone) {
			p.Errorf("Release of a held claim with a cancelled context: got %v, want none that is ErrGone", err)
		}
		if err != nil {
			p.mustBeCancelled(err, "Release with a cancelled context")
		}
	})
	p.withdraw(c)
	p.mustGrant(p.claim(), "after a cancelled Release was repeated")
}
