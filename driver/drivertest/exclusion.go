package drivertest

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

func tryIsIdempotentByOwner(p *probe) {
	a, other := p.Claim(), p.Claim()
	first := p.MustGrant(a, "of a free name")
	for range 3 {
		again := p.MustGrant(a, "repeated by its owner")
		if again.Token < first.Token {
			p.Errorf("repeated Try: got token %d, want at least the first token, %d", again.Token, first.Token)
		}
	}
	p.MustRefuse(other, "by another owner after a repeated Try")
	p.MustRelease(a, "after a repeated Try")
	p.MustGrant(other, "after one Release of a repeated Try")
}

// ownersTellClaimsApart uses claims whose owners differ only at the end, or only at the
// beginning. A store such as a quorum makes several owners from the owner of one claim. These
// owners differ only at the end.
func ownersTellClaimsApart(p *probe) {
	a := p.Claim()
	one, two, elsewhere := a, a, conformance.WithClient(a, uuid.New())
	one.Owner, two.Owner = a.Owner+".1", a.Owner+".2"
	all := []driver.Claim{a, one, two, elsewhere}
	for i, held := range all {
		p.MustGrant(held, "of a free name")
		for j, other := range all {
			if j == i {
				continue
			}
			p.mustTurnAway(other, "by another owner, "+other.Owner+", of what "+held.Owner+" holds")
			p.MustNotRenew(other, "by another owner, "+other.Owner+", of what "+held.Owner+" holds")
		}
		p.MustRenew(held, "by the holder, "+held.Owner)
		p.MustRelease(held, "by the holder, "+held.Owner)
	}
}

func excludesOthers(p *probe) {
	a := p.Claim()
	began := time.Now()
	held := p.MustGrant(a, "of a free name")
	limit := max(p.Rounded(a.TTL), held.ValidFor) + prompt
	for range 3 {
		b := p.Claim()
		o := p.MustRefuse(b, "of a held name")
		if o.RetryAfter < 0 || o.RetryAfter > limit {
			p.Errorf("refused Try: got RetryAfter %v, want 0 to %v, the holder's lease", o.RetryAfter, limit)
		}
		// HeldFor is for operators, and may be unknown. It may be too long by the duration
		// `prompt`, because the clock of a server may count in steps.
		if most := time.Since(began) + prompt; o.HeldFor < 0 || o.HeldFor > most {
			p.Errorf("refused Try: got HeldFor %v, want 0 to %v; 0 means that it is not known", o.HeldFor, most)
		}
		p.mustTurnAway(b, "of a held name, repeated")
	}
	p.MustRenew(a, "after others were refused")
	p.MustRelease(a, "after others were refused")
}

// excludesUnderContention acquires one name 400 times, from several goroutines. If the store is
// slow, the check begins no further acquisition when a third of conformance.Overall has passed.
func excludesUnderContention(p *probe) {
	const workers, rounds, least = 8, 50, 40
	var s section
	var passed atomic.Int64
	until := time.Now().Add(conformance.Overall / 3)
	p.contend(workers, rounds, func() error {
		if time.Now().After(until) {
			return nil
		}
		err := p.pass(&s)
		if err == nil {
			passed.Add(1)
		}
		return err
	})
	if got, want := s.count.Load(), passed.Load(); got != want || want < least {
		p.Errorf("counter that the lock protects: got %d, want %d, the number of grants, which must be at least %d", got, want, least)
	}
}

// section has the data that the lock protects. Its fields are atomic, so that a store with two
// holders at once fails the check and causes no data race. A holder reads a field and writes it
// in separate steps, so that the check notices two holders.
type section struct {
	inside atomic.Int32
	count  atomic.Int64
	token  atomic.Uint64
}

// pass acquires the name p.Name, enters the section s and releases the name.
func (p *probe) pass(s *section) error {
	c := p.Claim()
	c.Tokens = p.tokens(3)
	return p.within(c, func(o driver.Outcome) error { return s.enter(o, c, p.Info.Caps.Fencing) })
}

func (s *section) enter(o driver.Outcome, c driver.Claim, fencing bool) error {
	defer s.inside.Add(-1)
	if n := s.inside.Add(1); n != 1 {
		return fmt.Errorf("%d holders at once", n)
	}
	v := s.count.Load()
	last := s.token.Load()
	runtime.Gosched()
	s.count.Store(v + 1)
	s.token.Store(o.Token + uint64(c.Tokens) - 1)
	if fencing && o.Token <= last {
		return fmt.Errorf("got token %d after token %d", o.Token, last)
	}
	return nil
}

func tokensRise(p *probe) {
	var last uint64
	take := func(c driver.Claim, when string) {
		p.Helper()
		o := p.MustGrant(c, when)
		if o.Token <= last {
			p.Fatalf("Try %s: got token %d, want more than %d, the last token", when, o.Token, last)
		}
		last = o.Token + uint64(c.Tokens) - 1
	}
	// Between two tries, a clock advances by fewer microseconds than a large block has tokens.
	// So the check notices if a store derives tokens from a clock and does not reserve the
	// block.
	for _, block := range []int{1, 1, 64, 1, 1 << 20, 5, 1} {
		c := p.Claim()
		c.Tokens = p.tokens(block)
		take(c, fmt.Sprintf("with %d tokens", block))
		p.MustRelease(c, "of a held claim")
	}
	a := p.Claim()
	a.Tokens = p.tokens(1 << 20)
	take(a, "before it is repeated")
	if again := p.MustGrant(a, "repeated by its owner"); again.Token > last {
		last = again.Token + uint64(a.Tokens) - 1
	}
	p.MustRelease(a, "after a repeated Try")
	take(p.Claim(), "after a repeated Try")
}

func expiresAlone(p *probe) {
	a, b := p.brief(), p.Claim()
	start := time.Now()
	o := p.MustGrant(a, "of a free name")
	granted := time.Now()
	p.mustRefuseBeside(b, start, "while the lease lasts")
	next := p.MustGrantBy(b, granted.Add(p.lapse()), "after the lease")
	if p.Info.Caps.Fencing && next.Token <= o.Token {
		p.Errorf("token after an expired grant: got %d, want more than %d", next.Token, o.Token)
	}
	p.MustNotRenew(a, "of an expired claim")
	p.MustNotRelease(a, "of an expired claim")
	p.MustRenew(b, "of the claim that followed")
}

func validForIsALowerBound(p *probe) {
	a, b := p.brief(), p.Claim()
	start := time.Now()
	o := p.MustGrant(a, "of a free name")
	granted := time.Now()
	p.mustRefuseBeside(b, start, "while the lease lasts")

	// The check is made twice: after a grant and, with other claims, after a renewal.
	p.MustGrantBy(b, granted.Add(p.lapse()), "after the lease")
	p.notBefore(start.Add(o.ValidFor), "granted")
	p.MustRelease(b, "of a held claim")

	var r driver.Renewal
	for held := false; !held; {
		a, b = p.brief(), p.Claim()
		start = time.Now()
		p.MustGrant(a, "of a free name")
		pause(p.Ctx, p.short/3)
		r, held = p.mustRenewBrief(a, &start, "of a held claim")
	}
	p.MustGrantBy(b, time.Now().Add(p.lapse()), "after the renewed lease")
	p.notBefore(start.Add(r.ValidFor), "renewed")
}

// notBefore reports an error if it is called before the instant `valid`. Until then the last
// holder may still consider itself the holder.
func (p *probe) notBefore(valid time.Time, how string) {
	p.Helper()
	if early := time.Until(valid); early > 0 {
		p.Errorf("the name was granted to another claim %v before the end of the lease that was %s", early, how)
	}
}

// lapse returns for how long a brief claim may be held after its last renewal, at most. That
// time is longer than the lease, because a store may notice the end of a lease late.
func (p *probe) lapse() time.Duration {
	ttl := p.Rounded(p.short)
	return ttl + max(time.Second, ttl)
}
