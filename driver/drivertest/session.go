package drivertest

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

// keepAlive renews the claims that the check has tried, until the caller calls `stop`. It does
// so only for a store with sessions, where the core would renew these claims, too. keepAlive
// does not renew the claims of clients with another session: these claims must expire.
func (p *probe) keepAlive() (stop func()) {
	if !p.has(sessions) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(p.Ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			pause(ctx, p.Info.SessionTTL/4)
			if ctx.Err() != nil {
				return
			}
			p.mu.Lock()
			tried := slices.DeleteFunc(p.Tried(), func(c driver.Claim) bool { return p.ownSessions[c.Client] != nil })
			p.mu.Unlock()
			_, _ = p.b.Renew(ctx, tried) // the check itself reports errors
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// unrenewed returns c with a short TTL, so that c expires unless the check renews it. If the
// store has sessions, c becomes the only claim of another client with another session.
func (p *probe) unrenewed(c driver.Claim) driver.Claim {
	c.TTL = p.short
	if !p.has(sessions) {
		return c
	}
	c = conformance.WithClient(c, uuid.New())
	b := p.open()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ownSessions[c.Client] = b
	return c
}

// storeOf returns the store that the client of c uses.
func (p *probe) storeOf(c driver.Claim) driver.Backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.ownSessions[c.Client]; b != nil {
		return b
	}
	return p.b
}
