package drivertest

import (
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// kindsDoNotMix uses one name for two kinds of lock. It does not use one name for a semaphore
// and a latch, because some stores, and Redisson, cannot distinguish these two: each of them is
// only a number in the store.
func kindsDoNotMix(p *probe) {
	kinds := map[string]func() driver.Claim{"mutex": p.Claim}
	if p.has(shared) {
		kinds["read lock"], kinds["write lock"] = p.Reader, p.writer
	}
	if p.has(permits) {
		kinds["semaphore"] = func() driver.Claim { return p.Permit(2) }
	}
	name := p.Name
	for used, holder := range kinds {
		for other, claim := range kinds {
			if used == other || holder().ReadWrite && claim().ReadWrite {
				continue
			}
			p.Name = name + " " + used + " " + other
			p.mustMismatch(used, holder(), other, claim())
		}
	}
}

func (p *probe) mustMismatch(used string, holder driver.Claim, other string, c driver.Claim) {
	p.Helper()
	p.MustGrant(holder, "of a free name as a "+used)
	for range 2 {
		o, err := p.b.Try(p.Ctx, c)
		if !errors.Is(err, driver.ErrMismatch) {
			p.Remember(c)
			p.Errorf("Try of a %s as a %s: got %+v, %v, want ErrMismatch", used, other, o, err)
			break
		}
	}
	p.MustRenew(holder, "of a "+used+" that was tried as a "+other)
	p.MustRelease(holder, "of a "+used+" that was tried as a "+other)
}

// latchIsNoLock tries a mutex on the name of a latch, and sets a latch on the name of a mutex.
// Both calls must return driver.ErrMismatch.
func latchIsNoLock(p *probe) {
	l := p.b.(driver.Latcher)
	p.mustSet("one", 2, true, "of a free name")
	if o, err := p.b.Try(p.Ctx, p.Claim()); !errors.Is(err, driver.ErrMismatch) {
		p.Errorf("Try of a latch: got %+v, %v, want ErrMismatch", o, err)
	}
	p.mustBeAt(2, "after it was tried as a mutex")
	p.openLatch(2)

	p.Name += " mutex"
	c := p.Claim()
	p.MustGrant(c, "of a free name")
	if set, err := l.SetCount(p.Ctx, p.Name, p.call("set"), 2); !errors.Is(err, driver.ErrMismatch) {
		p.Errorf("SetCount of a mutex: got %v, %v, want ErrMismatch", set, err)
	}
	p.MustRelease(c, "of a mutex that was set as a latch")
}
