package drivertest

import (
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// tryAllAnswersAsTry makes claims that Try answers differently, in one batch.
func tryAllAnswersAsTry(p *probe) {
	if got := p.b.(driver.Batcher).TryAll(p.ctx, nil); len(got) != 0 {
		p.Errorf("TryAll of no claims: got %v, want nothing", got)
	}
	on := func(suffix string) driver.Claim {
		c := p.claim()
		c.Name += suffix
		return c
	}
	free, busy, mine, late, last := on(" free"), on(" busy"), on(" mine"), on(" late"), on(" last")
	other := on(" busy")
	p.mustGrant(other, "of a free name")
	before := p.mustGrant(mine, "of a free name")
	p.mustNotRelease(unsettled(late), "of a claim that has not arrived")

	batch := []driver.Claim{busy, free, late, mine, last}
	got := p.tryAll(batch)
	for i, granted := range []bool{false, true, false, true, true} {
		p.mustAnswer(batch[i], got[i], granted)
	}
	if o := got[3].Outcome; p.has(fencing) && o.Token < before.Token {
		p.Errorf("TryAll by the holder: got token %d, want at least its first one, %d", o.Token, before.Token)
	}
	if got[0].Err != nil {
		p.Errorf("TryAll of a held name: got error %v, want a refusal", got[0].Err)
	}
	for _, c := range []driver.Claim{free, mine, last, other} {
		p.mustRenew(c, "of "+c.Name[len(p.name)+1:]+" after a batch")
		stranger := p.claim()
		stranger.Name = c.Name
		p.mustRefuse(stranger, "of a name that is held since a batch, or before")
		p.withdraw(stranger)
		p.mustRelease(c, "after a batch")
	}
	p.mustGrant(busy, "after a batch, of a name that was busy")
}

func tryAllIsIdempotent(p *probe) {
	batch := make([]driver.Claim, 3)
	for i := range batch {
		batch[i] = p.claim()
		batch[i].Name += string(rune('a' + i))
	}
	first := p.tryAll(batch)
	again := p.tryAll(batch)
	for i, c := range batch {
		p.mustAnswer(c, first[i], true)
		p.mustAnswer(c, again[i], true)
		p.mustRelease(c, "after two batches")
		p.mustNotRelease(c, "after two batches, repeated")
	}
}

// tryAllFailsOneByOne has a claim in its batch whose name is in use for
// something else.
func tryAllFailsOneByOne(p *probe) {
	mutex, r, free := p.claim(), p.reader(), p.reader()
	r.Name += " mutex"
	mutex.Name = r.Name
	p.mustGrant(mutex, "of a free name")
	got := p.tryAll([]driver.Claim{r, free})
	if !errors.Is(got[0].Err, driver.ErrMismatch) {
		p.Errorf("TryAll with a mutex as a read lock: got %+v, want ErrMismatch", got[0])
	}
	p.mustAnswer(free, got[1], true)
	p.mustRenew(mutex, "after a batch that took it for a read lock")
}

func tryAllHonoursContext(p *probe) {
	batch := []driver.Claim{p.claim(), p.claim()}
	batch[1].Name += " other"
	p.promptly("TryAll with a cancelled context", func() {
		got := p.b.(driver.Batcher).TryAll(p.cancelled(), batch)
		if len(got) != len(batch) {
			p.Fatalf("TryAll with a cancelled context: got %d answers to %d claims", len(got), len(batch))
		}
		for _, a := range got {
			p.mustBeCancelled(a.Err, "TryAll with a cancelled context")
		}
	})
	for _, c := range batch {
		p.withdraw(unsettled(c))
		next := p.claim()
		next.Name = c.Name
		p.mustGrant(next, "after a cancelled TryAll was released")
	}
}

func (p *probe) tryAll(cs []driver.Claim) []driver.Attempt {
	p.Helper()
	for _, c := range cs {
		p.remember(c)
	}
	got := p.b.(driver.Batcher).TryAll(p.ctx, cs)
	if len(got) != len(cs) {
		p.Fatalf("TryAll: got %d answers to %d claims", len(got), len(cs))
	}
	return got
}

func (p *probe) mustAnswer(c driver.Claim, a driver.Attempt, granted bool) {
	p.Helper()
	if a.Outcome.Granted != granted || granted && (a.Err != nil || a.Outcome.ValidFor <= 0) {
		p.Fatalf("TryAll, claim on %q: got %+v, want granted: %v", c.Name, a, granted)
	}
}
