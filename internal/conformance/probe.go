package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

const (
	// Prompt is the longest time that a call may take to notice a change: a release, or the
	// end of its context. It is long, because machines may be slow, but shorter than the
	// leases of claims that must not expire.
	Prompt = 1500 * time.Millisecond

	// Overall is the longest time of one check. If a store hangs, its check fails after that
	// time.
	Overall = time.Minute
)

// Probe has what a check needs: a store, a name and owners that no other check uses, and
// methods that call the store and require an outcome. The parameter `when` of these methods
// describes the situation in messages.
type Probe struct {
	testing.TB
	Ctx  context.Context
	Info driver.Info

	TTL    time.Duration       // the TTL of new claims, which must not expire
	Shape  func(*driver.Claim) // changes new claims; nil changes nothing
	Name   string              // the name of the lock of new claims
	Client string              // the client of new claims

	// StoreOf returns the store that the client of a claim uses.
	StoreOf func(driver.Claim) driver.Backend

	suite  string
	owners atomic.Uint64
	mu     sync.Mutex
	tried  map[string]driver.Claim // by owner: the claims that CleanUp releases
}

// NewProbe returns a Probe for a check of the store b. The text `suite` is in the names and
// notes of its claims. The caller calls the function `end` after the check. That function
// releases the claims that the check tried.
func NewProbe(t testing.TB, suite string, b driver.Backend, ttl time.Duration) (p *Probe, end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), Overall)
	p = &Probe{
		TB: t, Ctx: ctx, Info: b.Info(), TTL: ttl,
		Name: suite + "-" + rand.Text()[:12], Client: uuid.New(),
		StoreOf: func(driver.Claim) driver.Backend { return b },
		suite:   suite, tried: make(map[string]driver.Claim),
	}
	return p, func() {
		p.CleanUp()
		cancel()
	}
}

// CleanUp releases all claims that the check tried.
func (p *Probe) CleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Ctx), 5*time.Second)
	defer cancel()
	for _, c := range p.Tried() {
		_ = p.StoreOf(c).Release(ctx, c) // the check has reported its errors
	}
}

// Tried returns the claims that the check tried.
func (p *Probe) Tried() []driver.Claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.tried))
}

// Claim returns a new claim on the name p.Name. The claim must not expire during the check.
func (p *Probe) Claim() driver.Claim {
	n := p.owners.Add(1)
	c := driver.Claim{
		Name:   p.Name,
		Client: p.Client,
		Seq:    n,
		Owner:  fmt.Sprintf("%s:%d", p.Client, n),
		Mode:   driver.Exclusive,
		TTL:    p.TTL,
		Count:  1,
		Tokens: 1,
		Note:   fmt.Sprintf("%s@claim:%d", p.suite, n),
	}
	if p.Shape != nil {
		p.Shape(&c)
	}
	return c
}

// WithClient returns c as a claim of another client.
func WithClient(c driver.Claim, client string) driver.Claim {
	c.Client = client
	c.Owner = fmt.Sprintf("%s:%d", client, c.Seq)
	return c
}

// Passing returns a new claim that does not enter a queue of the store.
func (p *Probe) Passing() driver.Claim {
	c := p.Claim()
	c.NoQueue = true
	return c
}

// Reader returns a new claim for the read side of the lock with the name p.Name.
func (p *Probe) Reader() driver.Claim {
	c := p.Claim()
	c.Mode, c.ReadWrite = driver.Shared, true
	return c
}

// Permit returns a new claim for one permit of the semaphore with the name p.Name and n
// permits.
func (p *Probe) Permit(n int) driver.Claim {
	c := p.Claim()
	c.Mode, c.Permits = driver.Permit, n
	return c
}

// Rounded returns the TTL that the store uses for ttl: at least Info.MinTTL, and rounded up to a
// multiple of Info.TTLStep.
func (p *Probe) Rounded(ttl time.Duration) time.Duration {
	ttl = max(ttl, p.Info.MinTTL)
	if step := p.Info.TTLStep; step > 0 && ttl%step > 0 {
		ttl += step - ttl%step
	}
	return ttl
}

// Try calls Try of the store once, and ensures that CleanUp releases the claim.
func (p *Probe) Try(c driver.Claim) driver.Outcome {
	p.Helper()
	p.Remember(c)
	o, err := p.StoreOf(c).Try(p.Ctx, c)
	if err != nil {
		p.Fatalf("Try(%s): got error %v, want an answer", c.Owner, err)
	}
	return o
}

// Remember records c for CleanUp.
func (p *Probe) Remember(c driver.Claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried[c.Owner] = c
}

// MustGrant tries c, which must be granted.
func (p *Probe) MustGrant(c driver.Claim, when string) driver.Outcome {
	p.Helper()
	o := p.Try(c)
	if !o.Granted {
		p.Fatalf("Try %s: refused (held by %q), want a grant", when, o.Holder)
	}
	if o.ValidFor <= 0 {
		p.Errorf("Try %s: got ValidFor %v, want more than 0", when, o.ValidFor)
	}
	return o
}

// MustGrantBy tries c repeatedly until it is granted. A try that begins after the time `then`
// must not be refused. A try that began before that time may be refused, even if its answer
// comes later.
func (p *Probe) MustGrantBy(c driver.Claim, then time.Time, when string) driver.Outcome {
	p.Helper()
	for {
		late := time.Now().After(then)
		o := p.Try(c)
		if o.Granted {
			return o
		}
		if late {
			p.Fatalf("Try %s: still refused (held by %q)", when, o.Holder)
		}
		retry.Sleep(p.Ctx, 10*time.Millisecond)
	}
}

// MustRefuse tries c, which must not be granted.
func (p *Probe) MustRefuse(c driver.Claim, when string) driver.Outcome {
	p.Helper()
	o := p.Try(c)
	if o.Granted {
		p.Fatalf("Try %s: granted with token %d, want a refusal", when, o.Token)
	}
	return o
}

// MustRelease releases c, which must be held.
func (p *Probe) MustRelease(c driver.Claim, when string) {
	p.Helper()
	if err := p.StoreOf(c).Release(p.Ctx, c); err != nil {
		p.Fatalf("Release %s: got error %v, want nil", when, err)
	}
}

// MustNotRelease releases c, which must be gone.
func (p *Probe) MustNotRelease(c driver.Claim, when string) {
	p.Helper()
	p.MustBeGone(p.StoreOf(c).Release(p.Ctx, c), "Release "+when)
}

// Withdraw releases c, which may have been refused. The result may be driver.ErrGone, because
// the store need not keep anything of a refused claim.
func (p *Probe) Withdraw(c driver.Claim) {
	p.Helper()
	if err := p.StoreOf(c).Release(p.Ctx, c); err != nil && !errors.Is(err, driver.ErrGone) {
		p.Fatalf("Release of a refused claim: got error %v, want nil or ErrGone", err)
	}
}

// Renew renews c alone and returns the answer.
func (p *Probe) Renew(c driver.Claim) driver.Renewal {
	p.Helper()
	answers, err := p.StoreOf(c).Renew(p.Ctx, []driver.Claim{c})
	if err != nil || len(answers) != 1 {
		p.Fatalf("Renew of 1 claim: got %d answers and error %v, want one answer", len(answers), err)
	}
	return answers[0]
}

// MustRenew renews c, which must be held.
func (p *Probe) MustRenew(c driver.Claim, when string) driver.Renewal {
	p.Helper()
	r := p.Renew(c)
	if r.Err != nil {
		p.Fatalf("Renew %s: got error %v, want nil", when, r.Err)
	}
	if r.ValidFor <= 0 {
		p.Errorf("Renew %s: got ValidFor %v, want more than 0", when, r.ValidFor)
	}
	return r
}

// MustNotRenew renews c, which must be gone.
func (p *Probe) MustNotRenew(c driver.Claim, when string) {
	p.Helper()
	p.MustBeGone(p.Renew(c).Err, "Renew "+when)
}

// MustBeGone requires that err is driver.ErrGone. The text `what` describes the call that
// returned err.
func (p *Probe) MustBeGone(err error, what string) {
	p.Helper()
	if !errors.Is(err, driver.ErrGone) {
		p.Fatalf("%s: got error %v, want ErrGone", what, err)
	}
}

// Cancelled returns a context that has ended.
func (p *Probe) Cancelled() context.Context {
	ctx, cancel := context.WithCancel(p.Ctx)
	cancel()
	return ctx
}

// MustBeCancelled requires that err, the error of a call with a context that has ended, is
// context.Canceled. The text `what` describes that call.
func (p *Probe) MustBeCancelled(err error, what string) {
	p.Helper()
	if !errors.Is(err, context.Canceled) {
		p.Errorf("%s: got error %v, want one that is context.Canceled", what, err)
	}
}
