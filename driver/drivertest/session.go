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

// keepAlive renews the claims that the check tries, until the function is called that
// it returns: what keeps a session alive is for the core to do, and not what a check is
// about. Clients that stop responding have sessions of their own.
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
			tried = slices.DeleteFunc(tried, func(c driver.Claim) bool { return p.apart[c.Client] != nil })
			p.mu.Unlock()
			_, _ = p.b.Renew(ctx, tried) // the check says what it finds
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// silent returns c with a TTL that soon ends, unless the check renews it. Where a store
// keeps the claims of a client together it is another client's, whose only claim it is.
func (p *probe) silent(c driver.Claim) driver.Claim {
	c.TTL = p.short
	if !p.has(sessions) {
		return c
	}
	c.Client = uuid.New()
	c.Owner = fmt.Sprintf("%s:%d", c.Client, c.Seq)
	b := p.open()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apart[c.Client] = b
	return c
}

// beside returns c as a claim of the client of other.
func (p *probe) beside(c, other driver.Claim) driver.Claim {
	c.Client = other.Client
	c.Owner = fmt.Sprintf("%s:%d", c.Client, c.Seq)
	return c
}

// at returns the client of the store that makes c.
func (p *probe) at(c driver.Claim) driver.Backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.apart[c.Client]; b != nil {
		return b
	}
	return p.b
}
