package drivertest

import (
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// keeping returns a new claim that must not expire, and whose name stays taken for
// Claim.AtLeast after the release.
func (p *probe) keeping() driver.Claim {
	c := p.Claim()
	c.AtLeast = 2 * p.Rounded(p.short)
	return c
}

// mustKeep requires that the name of c stays taken until c.AtLeast has passed since the
// release, and then becomes free. c was released between the instants `before` and `after`.
// `looked` reports whether all answers came in time. If not, mustKeep has changed the name of
// the check, and the caller begins again.
func (p *probe) mustKeep(c driver.Claim, before, after time.Time) (looked bool) {
	p.Helper()
	next := p.Claim()
	if !p.mustStayTaken(c, next, before, after) {
		p.Withdraw(next)
		p.Name += " again"
		return false
	}
	p.MustGrantBy(next, after.Add(c.AtLeast+max(time.Second, p.Rounded(p.short))), "after the time for which the name stays taken")
	if early := time.Until(before.Add(c.AtLeast)); early > 0 {
		p.Errorf("the name was granted to another claim %v too early: it must stay taken for %v", early, c.AtLeast)
	}
	p.MustNotRenew(c, "of a claim that was released, while another claim holds")
	p.MustRelease(next, "of the claim that followed")
	return true
}

// mustStayTaken requires that the name of c stays taken, while the claim `next` waits for the
// name. c was released between the instants `before` and `after`. mustStayTaken reports whether
// all answers came before the name might become free.
func (p *probe) mustStayTaken(c, next driver.Claim, before, after time.Time) bool {
	p.Helper()
	until, most := before.Add(c.AtLeast), time.Until(after.Add(c.AtLeast))+prompt
	o, early := p.mustRefuseUntil(next, until, "of a name that stays taken")
	if !early {
		return false
	}
	if !o.Kept || o.RetryAfter <= 0 || o.RetryAfter > most {
		p.Errorf("Try of a name that stays taken: got Kept %v, RetryAfter %v, want true, and a RetryAfter above 0 and at most %v", o.Kept, o.RetryAfter, most)
	}
	owner := c
	owner.NoQueue = true // else c would enter the queue, and the renewal below would succeed
	if _, early = p.mustRefuseUntil(owner, until, "of a name that stays taken, by the owner who released it"); !early {
		return false
	}
	p.MustNotRenew(c, "of a claim that was released, and whose name stays taken")
	again := c
	again.AtLeast += p.TTL // a repeated Release must not lengthen the time
	if err := p.b.Release(p.Ctx, again); err != nil && !errors.Is(err, driver.ErrGone) {
		p.Errorf("Release repeated while the name stays taken: got error %v, want nil or ErrGone", err)
	}
	_, early = p.mustRefuseUntil(next, until, "after a repeated Release, of a name that stays taken")
	return early
}

func releaseLeavesTheNameTaken(p *probe) {
	for kept := 0; kept < 2; {
		c := p.keeping()
		p.MustGrant(c, "of a free name")
		p.MustRenew(c, "of a held claim")
		pause(p.Ctx, p.short/5) // AtLeast counts from the release, not from the grant
		before := time.Now()
		p.MustRelease(c, "of a name that stays taken")
		if p.mustKeep(c, before, time.Now()) {
			kept++
		}
	}
}

func releaseAllLeavesTheNameTaken(p *probe) {
	for looked := false; !looked; {
		c, plain := p.keeping(), p.Claim()
		plain.Name += " plain"
		p.MustGrant(plain, "of a free name")
		p.MustGrant(c, "of a free name")
		before := time.Now()
		for i, err := range p.b.(driver.Batcher).ReleaseAll(p.Ctx, []driver.Claim{plain, c}) {
			if err != nil {
				p.Errorf("ReleaseAll, claim %d: got error %v, want nil", i, err)
			}
		}
		after := time.Now()
		next := p.Claim()
		next.Name = plain.Name
		p.MustGrant(next, "after ReleaseAll, of the name that does not stay taken")
		looked = p.mustKeep(c, before, after)
	}
}

// atLeastOutlastsTheLease releases a claim whose lease would end earlier than the time for which
// its name must stay taken.
func atLeastOutlastsTheLease(p *probe) {
	for looked := false; !looked; {
		c := p.keeping()
		c.TTL = p.short
		granted := time.Now()
		p.MustGrant(c, "of a free name")
		before := time.Now()
		switch err := p.storeOf(c).Release(p.Ctx, c); {
		case err == nil:
			looked = p.mustKeep(c, before, time.Now())
		case p.lasting(granted):
			p.Fatalf("Release of a held claim: got error %v, want nil", err)
		default: // the lease of c had ended
			p.Name += " again"
		}
	}
}

func crashFreesAfterTTL(p *probe) {
	c, next := p.brief(), p.Claim()
	c.AtLeast = p.TTL
	p.MustGrant(c, "of a free name")
	granted := time.Now()
	p.MustGrantBy(next, granted.Add(p.lapse()), "after the lease of a holder who died")
	p.MustNotRelease(c, "of an expired claim")
	p.MustRenew(next, "of the claim that followed")
}

// releaseWithoutAtLeastFrees sets Claim.AtLeast for Try and Renew, which must ignore it. For
// Release it does not set Claim.AtLeast, so the name must become free at once.
func releaseWithoutAtLeastFrees(p *probe) {
	c, next := p.Claim(), p.Claim()
	c.AtLeast = p.TTL
	p.MustGrant(c, "of a free name")
	p.MustRenew(c, "of a held claim")
	c.AtLeast = 0
	p.MustRelease(c, "of a name that does not stay taken")
	p.MustGrant(next, "after the Release")
}

// atLeastReleaseWakes lets a claim wait while another claim holds with a long lease. The
// release of the holder must wake the waiter. The next Try of the waiter must return a
// RetryAfter that is not longer than Claim.AtLeast.
func atLeastReleaseWakes(p *probe) {
	c, next := p.keeping(), p.Claim()
	p.MustGrant(c, "of a free name")
	last := p.MustRefuse(next, "of a held name")
	w := p.b.Waiter(next)
	defer w.Close()
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		pause(p.Ctx, 50*time.Millisecond)
		err = p.b.Release(p.Ctx, c)
	})
	defer wg.Wait()
	retryWithin(prompt, func() (done bool) { // Wait may return early
		if err := p.wait(w, last); err != nil {
			p.Fatalf("waiting while the holder releases a name that stays taken: %v", err)
		}
		last = p.Try(next)
		return last.Granted || last.RetryAfter <= c.AtLeast
	})
	wg.Wait()
	if err != nil || last.RetryAfter > c.AtLeast {
		p.Errorf("Release of a name that stays taken: got error %v, and for the waiter RetryAfter %v, want no error, and at most %v", err, last.RetryAfter, c.AtLeast)
	}
}
