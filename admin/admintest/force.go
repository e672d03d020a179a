package admintest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

const reason = "admintest wants it"

func forceUnlockEndsTheHold(p *probe) {
	a, b := p.claim(), p.claim()
	p.grant(a, "of a free name")
	h := p.hold(a, "of a held name")
	last := p.try(b)
	if last.Granted {
		p.Fatalf("Try of a held name: granted")
	}
	var wg sync.WaitGroup
	if p.store.Info().Caps.Wakes {
		wg.Go(func() {
			w := p.store.Waiter(b)
			defer w.Close()
			ctx, cancel := context.WithTimeout(p.ctx, prompt)
			defer cancel()
			if _, err := w.Wait(ctx, last); err != nil {
				p.Errorf("waiting for a forced unlock: %v", err)
			}
		})
	}
	err := p.store.ForceUnlock(p.ctx, p.name, h.Holder, reason)
	wg.Wait()
	if err != nil {
		p.Fatalf("ForceUnlock of a hold: got error %v, want nil", err)
	}
	if p.brief {
		p.forced(a)
	}
	p.grant(b, "after a forced unlock")
	if !p.brief {
		p.forced(a)
	}
	p.gone(p.renew(a), "Renew of a claim whose hold was ended, while another holds")
	p.gone(p.store.Release(p.ctx, a), "Release of a claim whose hold was ended")
	if err := p.renew(b); err != nil {
		p.Errorf("Renew of the claim that followed: got error %v", err)
	}
}

// forced requires that a renewal of c returns that its hold was forced, with the reason.
func (p *probe) forced(c driver.Claim) {
	p.Helper()
	err := p.renew(c)
	p.gone(err, "Renew of a claim whose hold was ended")
	var gone *driver.GoneError
	if !errors.As(err, &gone) || gone.Reason != driver.ReasonForced || !strings.Contains(gone.Detail, reason) {
		p.Errorf("Renew of a claim whose hold was ended: got %#v, want a GoneError with reason %q and %q in its detail", err, driver.ReasonForced, reason)
	}
}

func forceUnlockOfChangedHoldIsGone(p *probe) {
	a, b := p.claim(), p.claim()
	p.grant(a, "of a free name")
	h := p.hold(a, "of a held name").Holder
	p.release(a)
	p.gone(p.store.ForceUnlock(p.ctx, p.name, h, reason), "ForceUnlock of a hold that is over")
	p.grant(b, "after the ForceUnlock of a hold that is over")
	p.gone(p.store.ForceUnlock(p.ctx, p.name, h, reason), "ForceUnlock of a hold that another followed")
	if err := p.renew(b); err != nil {
		p.Errorf("Renew of the holder, after the ForceUnlock of the one before: got error %v", err)
	}
}

func forceUnlockEndsThatHoldOnly(p *probe) {
	a, b := p.reader(), p.reader()
	p.grant(a, "of a free name")
	p.grant(b, "beside another reader")
	holds := p.holds(2, admin.KindReadWrite, "with two readers")
	i := slices.IndexFunc(holds, func(h admin.Hold) bool { return h.Owner == a.Owner })
	if i < 0 {
		p.Fatalf("Get: got %+v, want %s among them", holds, a.Owner)
	}
	if err := p.store.ForceUnlock(p.ctx, p.name, holds[i].Holder, reason); err != nil {
		p.Fatalf("ForceUnlock of a reader: got error %v", err)
	}
	p.gone(p.renew(a), "Renew of the reader whose hold was ended")
	if err := p.renew(b); err != nil {
		p.Errorf("Renew of the other reader: got error %v", err)
	}
}

func forceUnlockFreesWhatIsKept(p *probe) {
	a, b := p.claim(), p.claim()
	p.grant(a, "of a free name")
	a.AtLeast = p.ttl()
	p.release(a)
	h := p.holds(1, admin.KindMutex, "of a name that stays taken")[0]
	if h.Owner != a.Owner+driver.KeptOwner || !h.Kept() {
		p.Errorf("Get of a name that stays taken: got %+v, want the owner with %q", h, driver.KeptOwner)
	}
	b.NoQueue = true
	if o := p.try(b); o.Granted || !o.Kept {
		p.Fatalf("Try of a name that stays taken: got %+v, want Kept", o)
	}
	if err := p.store.ForceUnlock(p.ctx, p.name, h.Holder, reason); err != nil {
		p.Fatalf("ForceUnlock of a name that stays taken: got error %v", err)
	}
	p.free("after a forced unlock")
	p.grant(b, "after a forced unlock")
}

func forceUnlockIsRemembered(p *probe) {
	base := p.name
	forced := p.claim()
	p.grant(forced, "of a free name")
	h := p.hold(forced, "of a held name").Holder
	if err := p.store.ForceUnlock(p.ctx, base, h, reason); err != nil {
		p.Fatalf("ForceUnlock of a hold: got error %v, want nil", err)
	}
	p.name = base + " released"
	released := p.claim()
	p.grant(released, "of a free name")
	p.release(released)
	ended := []admin.Ended{{Name: released.Name, Owner: released.Owner}, {Name: base, Owner: forced.Owner}}
	if got, err := p.store.ForceReasons(p.ctx, ended); err != nil || !slices.Equal(got, []string{"", reason}) {
		p.Errorf("ForceReasons of a released and a forced hold: got %q and error %v, want the reason of the second", got, err)
	}
}
