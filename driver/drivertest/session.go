package drivertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

// keepAlive renews the claims that the check tries, until the returned function is called.
// In programs the core keeps sessions alive, so checks need not. Clients that stop
// responding have sessions of their own.
func (p *probe) keepAlive() (stop func()) {
	if !p.has(sessions) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(p.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			pause(ctx, p.info.SessionTTL/4)
			if ctx.Err() != nil {
				return
			}
			p.mu.Lock()
			tried := slices.Collect(maps.Values(p.tried))
			tried = slices.DeleteFunc(tried, func(c driver.Claim) bool { return p.ownSessions[c.Client] != nil })
			p.mu.Unlock()
			_, _ = p.b.Renew(ctx, tried) // the check itself reports errors
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// unrenewed returns c with a TTL that soon ends, unless the check renews it. If a store has
// sessions, c belongs to another client, and is its only claim.
func (p *probe) unrenewed(c driver.Claim) driver.Claim {
	c.TTL = p.short
	if !p.has(sessions) {
		return c
	}
	c.Client = uuid.New()
	c.Owner = fmt.Sprintf("%s:%d", c.Client, c.Seq)
	b := p.open()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ownSessions[c.Client] = b
	return c
}

// withClientOf returns c as a claim of the client of other.
func (p *probe) withClientOf(c, other driver.Claim) driver.Claim {
	c.Client = other.Client
	c.Owner = fmt.Sprintf("%s:%d", c.Client, c.Seq)
	return c
}

// storeOf returns the store of the client that makes c.
func (p *probe) storeOf(c driver.Claim) driver.Backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.ownSessions[c.Client]; b != nil {
		return b
	}
	return p.b
}
