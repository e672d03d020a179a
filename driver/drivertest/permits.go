package drivertest

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// permits acquires all permits of a semaphore with n permits.
func (p *probe) permits(n int) []driver.Claim {
	p.Helper()
	cs := make([]driver.Claim, n)
	for i := range cs {
		cs[i] = p.Permit(n)
		p.MustGrant(cs[i], fmt.Sprintf("of permit %d of %d", i+1, n))
	}
	return cs
}

func permitsAreLimited(p *probe) {
	held := p.permits(3)
	next := p.Permit(3)
	o := p.MustRefuse(next, "of a fourth permit of 3")
	p.mustNotBeHeld(next, o, "of a refused permit")
	for _, c := range held {
		p.MustRenew(c, "of a permit")
	}
	p.MustRelease(held[1], "of a permit")
	p.MustNotRenew(held[1], "of a permit that was released")
	p.MustGrant(next, "of a permit that came back")
	p.mustTurnAway(p.Permit(3), "of a fourth permit of 3, after one came back")
}

func permitTokensRise(p *probe) {
	var last uint64
	for range 3 {
		o := p.MustGrant(p.Permit(3), "of a free permit")
		if o.Token <= last {
			p.Errorf("Try of a permit: got token %d, want more than %d, the token before", o.Token, last)
		}
		last = o.Token
	}
}

func permitTryTakesOnePermit(p *probe) {
	a, b := p.Permit(2), p.Permit(2)
	for range 4 {
		p.MustGrant(a, "of a permit, repeated by its owner")
	}
	p.MustGrant(b, "of the second permit of 2")
	for range 3 {
		p.MustGrant(a, "of a held permit, repeated by its owner while all permits are held")
		p.mustTurnAway(p.Permit(2), "of a third permit of 2")
	}
	p.MustRelease(a, "of a permit that was tried again and again")
	p.MustGrant(p.Permit(2), "of the permit that came back")
	p.mustTurnAway(p.Permit(2), "of a third permit of 2")
}

func permitComesBackOnce(p *probe) {
	held := p.permits(2)
	p.MustRelease(held[0], "of a permit")
	p.MustNotRelease(held[0], "of a permit, repeated")
	p.MustNotRelease(p.Permit(2), "of a permit that was never tried")
	p.MustGrant(p.Permit(2), "of the permit that came back")
	p.mustTurnAway(p.Permit(2), "of a third permit of 2, after the Release of another permit was repeated")
}

// permitsOfANameAreSetOnce tries claims that contain another number of permits than the first
// claim of the name. The semaphore must keep the number of the first claim.
func permitsOfANameAreSetOnce(p *probe) {
	held := p.permits(2)
	p.mustTurnAway(p.Permit(5), "of a third permit of 2, by a claim that names 5 permits")
	p.MustRelease(held[0], "of a permit")
	if o := p.MustGrant(p.Permit(1), "of the second permit of 2, by a claim that names 1 permit"); o.Permits != 0 && o.Permits != 2 {
		p.Errorf("Try by a claim that names 1 permit: got Outcome.Permits %d, want 2, or 0 if the store does not report the number", o.Permits)
	}
	p.mustTurnAway(p.Permit(5), "of a third permit of 2, by a claim that names 5 permits, after one that names 1")
}

func permitExpiresAlone(p *probe) {
	dead, alive, next := p.unrenewed(p.Permit(2)), p.Permit(2), p.Permit(2)
	start := time.Now()
	p.MustGrant(dead, "of a permit with a short lease")
	granted := time.Now()
	p.MustGrant(alive, "of the second permit of 2")
	p.mustRefuseBeside(next, start, "while the leases last")
	p.MustGrantBy(next, granted.Add(p.lapse()), "after one lease")
	p.mustTurnAway(p.Permit(2), "of a third permit of 2, after one has expired")
	p.MustNotRenew(dead, "of a permit that has expired")
	p.MustNotRelease(dead, "of a permit that has expired")
	p.mustTurnAway(p.Permit(2), "after an expired permit was released")
	p.MustRenew(alive, "of the other permit")
	p.MustRenew(next, "of the permit that followed")
}

func permitsUnderContention(p *probe) {
	const workers, rounds, n = 6, 25, 3
	var inside, most atomic.Int32
	p.contend(workers, rounds, func() error {
		return p.within(p.Permit(n), func(driver.Outcome) error {
			defer inside.Add(-1)
			now := inside.Add(1)
			most.Store(max(most.Load(), now))
			runtime.Gosched()
			if now > n {
				return fmt.Errorf("%d holders of %d permits", now, n)
			}
			return nil
		})
	})
	for range n {
		p.MustGrant(p.Permit(n), "of a free permit, after contention")
	}
	p.mustTurnAway(p.Permit(n), "of one permit more than there are, after contention")
}

func permitReleaseWakes(p *probe) {
	held := p.permits(2)
	next := p.Permit(2)
	p.wakes("release of a permit", func() { p.MustRelease(held[1], "of a permit") }, next)
	p.MustGrant(next, "of the permit that came back")
}

func permitsAreCounted(p *probe) {
	p.mustCount(0, 0, "of an unknown name")
	held := p.permits(3)
	p.mustCount(3, 0, "while all permits are held")
	p.mustTurnAway(p.Permit(3), "of a fourth permit of 3")
	p.MustRelease(held[0], "of a permit")
	p.mustCount(3, 1, "after one permit came back")
	p.MustGrant(held[1], "repeated by its owner")
	p.mustCount(3, 1, "after a repeated Try")
}

func (p *probe) mustCount(total, free int, when string) {
	p.Helper()
	gotTotal, gotFree, err := p.b.(driver.Resizer).Permits(p.Ctx, p.Name)
	if err != nil || gotTotal != total || gotFree != free {
		p.Fatalf("Permits %s: got %d, %d free, error %v, want %d, %d free", when, gotTotal, gotFree, err, total, free)
	}
}

// resize sets the number of permits to n. It does so twice: the second call must change
// nothing.
func (p *probe) resize(n int) {
	p.Helper()
	for range 2 {
		if err := p.b.(driver.Resizer).Resize(p.Ctx, p.Name, n); err != nil {
			p.Fatalf("Resize to %d: got error %v, want nil", n, err)
		}
	}
}

func resizeUpAdmitsMore(p *probe) {
	p.permits(1)
	next := p.Permit(1)
	if p.has(wakes) {
		p.wakes("resize", func() { p.resize(2) }, next)
	} else {
		p.resize(2)
	}
	p.mustCount(2, 1, "after a resize from 1 to 2")
	p.MustGrant(next, "of the new permit")
	p.mustTurnAway(p.Permit(1), "of a third permit of 2")
}

func resizeDownGivesNoneOut(p *probe) {
	held := p.permits(3)
	p.resize(1)
	p.mustCount(1, -2, "after a resize from 3 to 1")
	next := p.Permit(3)
	for _, c := range held {
		p.MustRenew(c, "of a permit that was held before the resize")
	}
	p.MustRefuse(next, "while 3 permits are held, after a resize to 1")
	p.MustRelease(held[0], "of a permit")
	p.MustRefuse(next, "while 2 permits are held, after a resize to 1")
	p.MustRelease(held[1], "of a permit")
	p.MustRefuse(next, "while 1 permit is held, after a resize to 1")
	p.MustRelease(held[2], "of a permit")
	p.MustGrant(next, "when enough permits have come back")
	p.mustCount(1, 0, "while the only permit is held")
}

func resizeMakesTheSemaphore(p *probe) {
	p.resize(2)
	p.mustCount(2, 2, "of a name that was only resized")
	p.MustGrant(p.Permit(1), "of the first permit of 2")
	p.MustGrant(p.Permit(1), "of the second permit of 2")
	p.mustTurnAway(p.Permit(5), "of a third permit of 2")
}
