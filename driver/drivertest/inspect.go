package drivertest

import (
	"errors"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

func inspectShowsTheHolder(p *probe) {
	if hs := p.inspect(); len(hs) != 0 {
		p.Errorf("Inspect of a free name: got %+v, want nobody", hs)
	}
	a, b := p.claim(), p.claim()
	b.Owner = uuid() + ":1" // another client: a store may keep one note for all claims of a client
	p.mustGrant(a, "of a free name")
	p.mustRefuse(b, "of a held name")
	h := p.mustShow(a, "of a held name")
	if h.Note != "" && h.Note != a.Note {
		p.Errorf("Inspect: got note %q, want %q", h.Note, a.Note)
	}
	if limit := p.rounded(a.TTL); p.has(expiry) && (h.Remaining <= 0 || h.Remaining > limit) {
		p.Errorf("Inspect: got %v remaining, want more than 0 and at most %v", h.Remaining, limit)
	}
	p.withdraw(b)
	p.mustRelease(a, "of a held claim")
	if hs := p.inspect(); len(hs) != 0 {
		p.Errorf("Inspect after the Release: got %+v, want nobody", hs)
	}
}

func holdsAreRecorded(p *probe) {
	a := p.claim()
	expect := func(want int, when string) {
		p.Helper()
		if h := p.mustShow(a, when); h.Holds != want {
			p.Errorf("Inspect %s: got %d holds, want %d", when, h.Holds, want)
		}
	}
	p.mustGrant(a, "of a free name")
	expect(1, "after the grant")
	for _, holds := range []int{2, 3, 3, 1, 2} {
		a.Holds = holds
		p.mustRenew(a, "with another count")
		expect(holds, "after a Renew")
		p.mustGrant(a, "with the same count, repeated")
		expect(holds, "after a repeated Try")
	}
	p.mustRelease(a, "with a count of 2")
	p.mustGrant(p.claim(), "after one Release of a claim with a count of 2")
}

func breakEndsTheGrant(p *probe) {
	const why = "drivertest wants it"
	a, b := p.claim(), p.claim()
	p.mustGrant(a, "of a free name")
	h := p.mustShow(a, "of a held name")
	last := p.mustRefuse(b, "of a held name")

	var wg sync.WaitGroup
	if p.has(wakes) {
		wg.Go(func() {
			w := p.b.Waiter(b)
			defer w.Close()
			if err := p.wait(w, last); err != nil {
				p.Errorf("waiting for a grant to be broken: %v", err)
			}
		})
	}
	err := p.b.(driver.Breaker).Break(p.ctx, p.name, h, why)
	wg.Wait()
	if err != nil {
		p.Fatalf("Break of a holder: got error %v, want nil", err)
	}
	p.mustGrant(b, "after the holder was broken")

	err = p.renew(a).Err
	p.mustBeGone(err, "Renew of a broken claim")
	var gone *driver.GoneError
	if !errors.As(err, &gone) || gone.Reason != driver.Forced || !strings.Contains(gone.Detail, why) {
		p.Errorf("Renew of a broken claim: got %#v, want a GoneError with reason %q and %q in its detail", err, driver.Forced, why)
	}
	p.mustNotRelease(a, "of a broken claim")
	p.mustRenew(b, "of the claim that followed")
}

func breakOfChangedHolderIsGone(p *probe) {
	a, b := p.claim(), p.claim()
	p.mustGrant(a, "of a free name")
	h := p.mustShow(a, "of a held name")
	p.mustRelease(a, "of a held claim")

	force := p.b.(driver.Breaker).Break
	p.mustBeGone(force(p.ctx, p.name, h, "test"), "Break of a holder that left")
	p.mustGrant(b, "after the Break of a holder that left")
	p.mustBeGone(force(p.ctx, p.name, h, "test"), "Break of a holder that another followed")
	p.mustRenew(b, "of the holder, after the Break of the one before")
}
