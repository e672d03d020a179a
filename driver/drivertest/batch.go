package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// tryAllAnswersAsTry tries claims in one batch, of which Try would grant some and refuse
// others. TryAll must return the same answers.
func tryAllAnswersAsTry(p *probe) {
	if got := p.b.(driver.Batcher).TryAll(p.Ctx, nil); len(got) != 0 {
		p.Errorf("TryAll of no claims: got %v, want nothing", got)
	}
	on := func(suffix string) driver.Claim { return p.on(p.Name + suffix) }
	free, busy, mine, late, last := on(" free"), on(" busy"), on(" mine"), on(" late"), on(" last")
	other := on(" busy")
	p.MustGrant(other, "of a free name")
	before := p.MustGrant(mine, "of a free name")
	p.MustNotRelease(indeterminate(late), "of a claim that has not arrived")

	batch := []driver.Claim{busy, free, late, mine, last}
	got := p.tryAll(batch)
	for i, granted := range []bool{false, true, !p.has(tombstones), true, true} {
		p.mustAnswer(batch[i], got[i], granted)
	}
	if o := got[3].Outcome; p.has(fencing) && o.Token < before.Token {
		p.Errorf("TryAll by the holder: got token %d, want at least its first token, %d", o.Token, before.Token)
	}
	if got[0].Err != nil {
		p.Errorf("TryAll of a held name: got error %v, want a refusal", got[0].Err)
	}
	for _, c := range []driver.Claim{free, mine, last, other} {
		p.MustRenew(c, "of "+c.Name[len(p.Name)+1:]+" after a batch")
		p.mustTurnAway(p.on(c.Name), "of a name that was granted in a batch or before it")
		p.MustRelease(c, "after a batch")
	}
	p.MustGrant(busy, "after a batch, of a name that was busy")
}

func tryAllIsIdempotent(p *probe) {
	batch := p.several(3)
	p.mustTryAll(batch)
	p.mustTryAll(batch)
	for _, c := range batch {
		p.MustRelease(c, "after two batches")
		p.MustNotRelease(c, "after two batches, repeated")
	}
}

// tryAllFailsOneByOne tries a batch with a claim whose name is in use for another kind of lock.
// The other claim must be granted all the same.
func tryAllFailsOneByOne(p *probe) {
	mutex, r, free := p.Claim(), p.Reader(), p.Reader()
	r.Name += " mutex"
	mutex.Name = r.Name
	p.MustGrant(mutex, "of a free name")
	got := p.tryAll([]driver.Claim{r, free})
	if !errors.Is(got[0].Err, driver.ErrMismatch) {
		p.Errorf("TryAll of a read lock with the name of a mutex: got %+v, want ErrMismatch", got[0])
	}
	p.mustAnswer(free, got[1], true)
	p.MustRenew(mutex, "after a batch that used its name for a read lock")
}

func tryAllHonoursContext(p *probe) {
	batch := p.several(2)
	p.promptly("TryAll with a cancelled context", func() {
		got := p.b.(driver.Batcher).TryAll(p.Cancelled(), batch)
		if len(got) != len(batch) {
			p.Fatalf("TryAll with a cancelled context: got %d answers to %d claims", len(got), len(batch))
		}
		for _, a := range got {
			p.MustBeCancelled(a.Err, "TryAll with a cancelled context")
		}
	})
	for _, c := range batch {
		p.Withdraw(indeterminate(c))
		p.MustGrant(p.on(c.Name), "after a cancelled TryAll was released")
	}
}

func (p *probe) tryAll(cs []driver.Claim) []driver.Attempt {
	p.Helper()
	for _, c := range cs {
		p.Remember(c)
	}
	got := p.b.(driver.Batcher).TryAll(p.Ctx, cs)
	if len(got) != len(cs) {
		p.Fatalf("TryAll: got %d answers to %d claims", len(got), len(cs))
	}
	return got
}

// mustTryAll tries the claims `cs` in one batch. All of these claims must be granted.
func (p *probe) mustTryAll(cs []driver.Claim) {
	p.Helper()
	for i, a := range p.tryAll(cs) {
		p.mustAnswer(cs[i], a, true)
	}
}

func (p *probe) mustAnswer(c driver.Claim, a driver.Attempt, granted bool) {
	p.Helper()
	if a.Outcome.Granted != granted || granted && (a.Err != nil || a.Outcome.ValidFor <= 0) {
		p.Fatalf("TryAll, claim on %q: got %+v, want granted: %v", c.Name, a, granted)
	}
}

// releaseAllAnswersAsRelease releases claims in one batch. For some of them Release would
// return nil, for others driver.ErrGone. ReleaseAll must return the same results.
func releaseAllAnswersAsRelease(p *probe) {
	if got := p.b.(driver.Batcher).ReleaseAll(p.Ctx, nil); len(got) != 0 {
		p.Errorf("ReleaseAll of no claims: got %v, want nothing", got)
	}
	on := func(suffix string) driver.Claim { return p.on(p.Name + suffix) }
	held, unsure, never, late, stranger, last := on(" held"), on(" unsure"), on(" never"), on(" late"), on(" other's"), on(" last")
	other := on(" other's")
	for _, c := range []driver.Claim{held, unsure, other, last} {
		p.MustGrant(c, "of a free name")
	}
	batch := []driver.Claim{stranger, held, never, indeterminate(unsure), indeterminate(late), last}
	got := p.releaseAll(p.Ctx, batch)
	for i, gone := range []bool{true, false, true, false, true, false} {
		p.mustEnd(batch[i], got[i], gone)
	}
	p.MustRenew(other, "of the holder, after a batch with the release of another claim on its name")
	p.MustRelease(other, "of the holder, after a batch with the release of another claim on its name")
	for _, c := range []driver.Claim{late, unsure} {
		if !p.has(tombstones) {
			break
		}
		if o, err := p.b.Try(p.Ctx, c); err == nil && o.Granted {
			p.Remember(c)
			p.Fatalf("Try after an indeterminate release in a batch: granted with token %d, want no grant", o.Token)
		}
	}
	for _, c := range batch {
		p.MustGrant(p.on(c.Name), "after a batch of releases")
	}
}

func releaseAllIsIdempotent(p *probe) {
	batch, next := p.several(3), p.several(3)
	p.mustTryAll(batch)
	p.mustReleaseAll(batch, false)
	p.mustReleaseAll(batch, true)
	p.mustTryAll(next)
	p.mustReleaseAll(batch, true)
	for _, c := range next {
		p.MustRelease(c, "after the releases of other claims were repeated")
	}
}

// releaseAllFailsOneByOne releases a batch with a claim whose name is in use for another kind of
// lock. The other claims must be released all the same.
func releaseAllFailsOneByOne(p *probe) {
	mutex, r, reader, free := p.Claim(), p.Reader(), p.Reader(), p.Claim()
	r.Name += " mutex"
	mutex.Name = r.Name
	reader.Name += " read"
	for _, c := range []driver.Claim{mutex, reader, free} {
		p.MustGrant(c, "of a free name")
	}
	got := p.releaseAll(p.Ctx, []driver.Claim{reader, r, free})
	p.mustEnd(reader, got[0], false)
	if got[1] == nil {
		p.Errorf("ReleaseAll of a read lock with the name of a mutex: got no error")
	}
	p.mustEnd(free, got[2], false)
	p.MustRenew(mutex, "after a batch that used its name for a read lock")
}

func releaseAllWakesWaiters(p *probe) {
	batch := p.several(3)
	p.mustTryAll(batch)
	w := p.on(batch[1].Name)
	p.wakes("batch of releases", func() { p.mustReleaseAll(batch, false) }, w)
	p.MustGrant(w, "after a batch of releases")
}

func releaseAllHonoursContext(p *probe) {
	batch := p.several(2)
	p.mustTryAll(batch)
	p.callCancelled("ReleaseAll of held claims", func(ctx context.Context) []error { return p.releaseAll(ctx, batch) })
	for _, c := range batch {
		p.Withdraw(c)
		p.MustGrant(p.on(c.Name), "after a cancelled ReleaseAll was repeated")
	}
}

// batchesOfManyNames makes batches with more names than some stores can take in one request.
// Some of the names are held by other claims.
func batchesOfManyNames(p *probe) {
	batch := p.several(250)
	busy := func(i int) bool { return i%49 == 0 }
	for i := range batch {
		if busy(i) {
			p.MustGrant(p.on(batch[i].Name), "of a free name")
		}
	}
	began := time.Now()
	answers := p.tryAll(batch)
	if time.Since(began) > p.TTL/2 {
		return // a busy store: leases may have ended meanwhile, so the answers show nothing
	}
	for i, a := range answers {
		p.mustAnswer(batch[i], a, !busy(i))
	}
	renewals, err := p.b.Renew(p.Ctx, batch)
	if err != nil || len(renewals) != len(batch) {
		p.Fatalf("Renew: got %d answers to %d claims, error %v", len(renewals), len(batch), err)
	}
	for i, r := range renewals {
		if gone := errors.Is(r.Err, driver.ErrGone); gone != busy(i) || !gone && r.Err != nil {
			p.Errorf("Renew, claim %d: got error %v; another claim holds the name: %v", i, r.Err, busy(i))
		}
	}
	for i, err := range p.releaseAll(p.Ctx, batch) {
		p.mustEnd(batch[i], err, busy(i))
	}
}

func batchesOfMixedKinds(p *probe) {
	batch := make([]driver.Claim, 12)
	for i := range batch {
		c := p.Claim()
		switch i % 4 {
		case 1:
			c.ReadWrite = true
		case 2:
			c = p.Reader()
		case 3:
			c.Fair = true
		}
		c.Name += fmt.Sprintf(" %d", i)
		batch[i] = c
	}
	p.mustTryAll(batch)
	p.mustTryAll(batch)
	for _, c := range batch {
		p.MustRenew(c, "after a batch of several kinds")
	}
	p.mustReleaseAll(batch, false)
	p.mustReleaseAll(batch, true)
}

func (p *probe) releaseAll(ctx context.Context, cs []driver.Claim) []error {
	p.Helper()
	got := p.b.(driver.Batcher).ReleaseAll(ctx, cs)
	if len(got) != len(cs) {
		p.Fatalf("ReleaseAll: got %d answers to %d claims", len(got), len(cs))
	}
	return got
}

// mustReleaseAll releases all claims of `cs` in one batch. If `gone` is false, all of these
// claims must be held. If `gone` is true, none of them may be held.
func (p *probe) mustReleaseAll(cs []driver.Claim, gone bool) {
	p.Helper()
	for i, err := range p.releaseAll(p.Ctx, cs) {
		p.mustEnd(cs[i], err, gone)
	}
}

// mustEnd checks the error of the release of c. If `gone` is true, c was not held before, and
// the error must be driver.ErrGone. Else there must be no error.
func (p *probe) mustEnd(c driver.Claim, err error, gone bool) {
	p.Helper()
	if errors.Is(err, driver.ErrGone) != gone || !gone && err != nil {
		p.Fatalf("ReleaseAll, claim on %q: got error %v, want gone: %v", c.Name, err, gone)
	}
}
