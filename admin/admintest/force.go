package admintest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
)

const reason = "admintest wants it"

func forceUnlockEndsTheHold(p *probe) {
	a, b := p.Claim(), p.Claim()
	p.MustGrant(a, "of a free name")
	h := p.hold(a, "of a held name")
	last := p.MustRefuse(b, "of a held name")
	var wg sync.WaitGroup
	if p.Info.Caps.Wakes {
		wg.Go(func() {
			w := p.store.Waiter(b)
			defer w.Close()
			ctx, cancel := context.WithTimeout(p.Ctx, conformance.Prompt)
			defer cancel()
			if _, err := w.Wait(ctx, last); err != nil {
				p.Errorf("waiting for a forced unlock: %v", err)
			}
		})
	}
	err := p.store.ForceUnlock(p.Ctx, p.Name, h.Holder, reason)
	wg.Wait()
	if err != nil {
		p.Fatalf("ForceUnlock of a hold: got error %v, want nil", err)
	}
	if p.brief {
		p.forced(a)
	}
	p.MustGrant(b, "after a forced unlock")
	if !p.brief {
		p.forced(a)
	}
	p.MustNotRenew(a, "of a claim whose hold was ended, while another claim holds")
	p.MustNotRelease(a, "of a claim whose hold was ended")
	p.MustRenew(b, "of the claim that followed")
}

// forced requires that a renewal of c fails, because the hold of c was ended by force. The
// error must have the text of the constant `reason`.
func (p *probe) forced(c driver.Claim) {
	p.Helper()
	err := p.Renew(c).Err
	p.MustBeGone(err, "Renew of a claim whose hold was ended")
	var gone *driver.GoneError
	if !errors.As(err, &gone) || gone.Reason != driver.ReasonForced || !strings.Contains(gone.Detail, reason) {
		p.Errorf("Renew of a claim whose hold was ended: got %#v, want a GoneError with reason %q and %q in its detail", err, driver.ReasonForced, reason)
	}
}

func forceUnlockOfChangedHoldIsGone(p *probe) {
	a, b := p.Claim(), p.Claim()
	p.MustGrant(a, "of a free name")
	h := p.hold(a, "of a held name").Holder
	p.MustRelease(a, "of a held claim")
	p.MustBeGone(p.store.ForceUnlock(p.Ctx, p.Name, h, reason), "ForceUnlock of a hold that is over")
	p.MustGrant(b, "after the ForceUnlock of a hold that is over")
	p.MustBeGone(p.store.ForceUnlock(p.Ctx, p.Name, h, reason), "ForceUnlock of a hold that another hold has followed")
	p.MustRenew(b, "of the holder, after the ForceUnlock of the hold before")
}

func forceUnlockEndsThatHoldOnly(p *probe) {
	a, b := p.Reader(), p.Reader()
	p.MustGrant(a, "of a free name")
	p.MustGrant(b, "beside another reader")
	holds := p.holds(2, admin.KindReadWrite, "with two readers")
	i := slices.IndexFunc(holds, func(h admin.Hold) bool { return h.Owner == a.Owner })
	if i < 0 {
		p.Fatalf("Get: got %+v, want %s among them", holds, a.Owner)
	}
	if err := p.store.ForceUnlock(p.Ctx, p.Name, holds[i].Holder, reason); err != nil {
		p.Fatalf("ForceUnlock of a reader: got error %v", err)
	}
	p.MustNotRenew(a, "of the reader whose hold was ended")
	p.MustRenew(b, "of the other reader")
}

func forceUnlockFreesWhatIsKept(p *probe) {
	a, b := p.Claim(), p.Passing()
	p.MustGrant(a, "of a free name")
	a.AtLeast = p.TTL
	p.MustRelease(a, "of a held claim")
	h := p.holds(1, admin.KindMutex, "of a name that stays taken")[0]
	if h.Owner != a.Owner+driver.KeptOwner || !h.Kept() {
		p.Errorf("Get of a name that stays taken: got %+v, want the owner with %q at the end", h, driver.KeptOwner)
	}
	if o := p.Try(b); o.Granted || !o.Kept {
		p.Fatalf("Try of a name that stays taken: got %+v, want Kept", o)
	}
	if err := p.store.ForceUnlock(p.Ctx, p.Name, h.Holder, reason); err != nil {
		p.Fatalf("ForceUnlock of a name that stays taken: got error %v", err)
	}
	p.free("after a forced unlock")
	p.MustGrant(b, "after a forced unlock")
}

func forceUnlockIsRemembered(p *probe) {
	base := p.Name
	forced := p.Claim()
	p.MustGrant(forced, "of a free name")
	h := p.hold(forced, "of a held name").Holder
	if err := p.store.ForceUnlock(p.Ctx, base, h, reason); err != nil {
		p.Fatalf("ForceUnlock of a hold: got error %v, want nil", err)
	}
	p.Name = base + " released"
	released := p.Claim()
	p.MustGrant(released, "of a free name")
	p.MustRelease(released, "of a held claim")
	ended := []admin.Ended{{Name: released.Name, Owner: released.Owner}, {Name: base, Owner: forced.Owner}}
	if got, err := p.store.ForceReasons(p.Ctx, ended); err != nil || !slices.Equal(got, []string{"", reason}) {
		p.Errorf("ForceReasons of a released and a forced hold: got %q and error %v, want the reason of the second", got, err)
	}
}
