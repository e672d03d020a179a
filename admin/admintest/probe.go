package admintest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

const (
	// prompt is the longest time that a waiter may take to notice a forced unlock, and
	// overall bounds one check.
	prompt  = 1500 * time.Millisecond
	overall = time.Minute
	// lease is the TTL of the claims: none may expire.
	lease = 20 * time.Second
	// grain is by how much Remaining may be longer than the TTL, because a store may round
	// up.
	grain = time.Millisecond
)

// probe is what a check works with: a store, names and owners of its own, and short methods
// that require an outcome.
type probe struct {
	conformance.Reporter
	store Store
	ctx   context.Context

	endless bool // Suite.NoRemaining
	brief   bool // Suite.BriefReasons

	name   string
	owners atomic.Uint64
	tried  []driver.Claim // released at the end
}

// run runs one check on s, with the settings of a suite.
func (c check) run(r conformance.Reporter, s Store, set Suite) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), overall)
	defer cancel()
	p := &probe{Reporter: r, store: s, ctx: ctx, endless: set.NoRemaining, brief: set.BriefReasons, name: "admintest-" + rand.Text()[:12]}
	defer p.cleanUp()
	c.body(p)
}

// cleanUp releases all claims that the check tried.
func (p *probe) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 5*time.Second)
	defer cancel()
	for _, c := range p.tried {
		_ = p.store.Release(ctx, c) // the check has reported its errors
	}
}

// claim returns a new claim on the check's name. Each belongs to a client of its own,
// because a store may keep one note for all claims of a client.
func (p *probe) claim() driver.Claim {
	n, client := p.owners.Add(1), uuid.New()
	c := driver.Claim{
		Name: p.name, Client: client, Seq: n, Owner: fmt.Sprintf("%s:%d", client, n), TTL: p.ttl(), Count: 1, Tokens: 1,
		Note: fmt.Sprintf("admintest@claim:%d", n),
	}
	return c
}

// ttl returns the suite's lease, adjusted to the limits and the step of the store.
func (p *probe) ttl() time.Duration {
	info := p.store.Info()
	ttl := max(lease, info.MinTTL)
	if info.MaxTTL > 0 {
		ttl = min(ttl, info.MaxTTL)
	}
	if step := info.TTLStep; step > 0 && ttl%step > 0 {
		ttl += step - ttl%step
	}
	return ttl
}

func (p *probe) reader() driver.Claim {
	c := p.claim()
	c.Mode, c.ReadWrite = driver.Shared, true
	return c
}

func (p *probe) permit(n int) driver.Claim {
	c := p.claim()
	c.Mode, c.Permits = driver.Permit, n
	return c
}

func (p *probe) try(c driver.Claim) driver.Outcome {
	p.Helper()
	p.tried = append(p.tried, c)
	o, err := p.store.Try(p.ctx, c)
	if err != nil {
		p.Fatalf("Try(%s): got error %v, want an answer", c.Owner, err)
	}
	return o
}

// grant requires that a Try of c is granted. The parameter when describes the situation.
func (p *probe) grant(c driver.Claim, when string) {
	p.Helper()
	if o := p.try(c); !o.Granted {
		p.Fatalf("Try %s: refused (held by %q), want a grant", when, o.Holder)
	}
}

func (p *probe) release(c driver.Claim) {
	p.Helper()
	if err := p.store.Release(p.ctx, c); err != nil {
		p.Fatalf("Release of a held claim: got error %v, want nil", err)
	}
}

// renew returns the error of a renewal of c alone.
func (p *probe) renew(c driver.Claim) error {
	p.Helper()
	answers, err := p.store.Renew(p.ctx, []driver.Claim{c})
	if err != nil || len(answers) != 1 {
		p.Fatalf("Renew: got %d answers and error %v, want one answer", len(answers), err)
	}
	return answers[0].Err
}

// record returns the Record of the check's name.
func (p *probe) record() admin.Record {
	p.Helper()
	records, err := p.store.Get(p.ctx, p.name)
	if err != nil || len(records) != 1 || records[0].Name != p.name {
		p.Fatalf("Get: got %+v and error %v, want the record of %q", records, err, p.name)
	}
	return records[0]
}

// free requires that no claim holds the check's name.
func (p *probe) free(when string) {
	p.Helper()
	if r := p.record(); len(r.Holds) != 0 || r.Holders != 0 {
		p.Errorf("Get %s: got %+v, want nobody", when, r)
	}
}

// holds returns the holds of the check's name. It requires n holds of different owners, and
// the given kind.
func (p *probe) holds(n int, kind admin.Kind, when string) []admin.Hold {
	p.Helper()
	r := p.record()
	owners := map[string]bool{}
	for _, h := range r.Holds {
		owners[h.Owner] = true
		switch {
		case p.endless && h.Remaining >= 0:
			p.Errorf("Get %s: got %v remaining, want less than 0 of a store that does not tell", when, h.Remaining)
		case p.endless:
		case p.store.Info().Caps.ExpiresAlone && (h.Remaining <= 0 || h.Remaining > p.ttl()+grain):
			p.Errorf("Get %s: got %v remaining, want more than 0 and at most %v", when, h.Remaining, p.ttl())
		}
	}
	if len(r.Holds) != n || r.Holders != n || len(owners) != n {
		p.Fatalf("Get %s: got %+v, want %d holds", when, r, n)
	}
	if bare := r.Kind == admin.KindPlain || r.Kind == admin.KindTimestamp; r.Kind != kind && (!bare || kind != admin.KindMutex) {
		p.Errorf("Get %s: got kind %q, want %q", when, r.Kind, kind)
	}
	return r.Holds
}

// hold returns the only hold of the check's name, and requires that c is its owner.
func (p *probe) hold(c driver.Claim, when string) admin.Hold {
	p.Helper()
	h := p.holds(1, admin.KindMutex, when)[0]
	if h.Owner != c.Owner {
		p.Fatalf("Get %s: got %+v, want owner %s", when, h, c.Owner)
	}
	return h
}

// gone requires that err is driver.ErrGone. The parameter what describes the call.
func (p *probe) gone(err error, what string) {
	p.Helper()
	if !errors.Is(err, driver.ErrGone) {
		p.Fatalf("%s: got error %v, want ErrGone", what, err)
	}
}
