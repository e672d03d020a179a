package drivertest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

const (
	// prompt is the longest time that a call may take to notice a change: a release, or the
	// end of its context. It is long, because machines may be slow, but shorter than the
	// leases of claims that must not expire. The time in which this process had no processor
	// is not counted.
	prompt = 1500 * time.Millisecond

	// overall is the longest time of one check, so that a check of a store that hangs fails.
	overall = time.Minute
)

// probe has what a check needs: a store, a name and owners that no other check uses, and short
// methods that require an outcome.
type probe struct {
	conformance.Reporter
	b    driver.Backend
	info driver.Info
	ctx  context.Context

	short time.Duration // the TTL of claims that must expire
	long  time.Duration // the TTL of claims that must not

	presence time.Duration // see Suite.Presence

	open        func() driver.Backend     // another client of the store
	ownSessions map[string]driver.Backend // by Claim.Client: clients with another session

	shape  func(*driver.Claim) // makes claims on another kind of lock; nil for a mutex
	name   string
	client string // of the claims
	owners atomic.Uint64

	mu    sync.Mutex
	tried map[string]driver.Claim // by owner; released at the end
}

// run runs one check on b, with the settings of s. open opens the same store once more.
func (c check) run(r conformance.Reporter, b driver.Backend, s Suite, open func() driver.Backend) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), overall)
	defer cancel()
	info := b.Info()
	ttl, presence := s.TTL, cmp.Or(s.Presence, info.PlaceTTL, 6*time.Second)
	if ttl == 0 {
		ttl = max(500*time.Millisecond, info.MinTTL)
	}
	long := max(20*time.Second, 10*ttl)
	if info.MaxTTL > 0 {
		long = min(long, info.MaxTTL)
	}
	if info.SessionTTL > 0 {
		ttl, long, presence = info.SessionTTL, info.SessionTTL, max(presence, 2*info.SessionTTL)
	}
	p := &probe{
		Reporter: r, b: b, info: info, ctx: ctx,
		short: ttl, long: long, presence: presence,
		open: open, ownSessions: make(map[string]driver.Backend),
		name:   "drivertest-" + rand.Text()[:12],
		client: uuid.New(),
		tried:  make(map[string]driver.Claim),
	}
	defer p.cleanUp()
	defer p.keepAlive()()
	c.body(p)
}

// cleanUp releases everything that the check tried.
func (p *probe) cleanUp() {
	p.mu.Lock()
	tried := maps.Clone(p.tried)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 5*time.Second)
	defer cancel()
	for _, c := range tried {
		_ = p.storeOf(c).Release(ctx, c) // the check has reported its errors
	}
}

// claim returns a new claim on the check's name, which must not expire.
func (p *probe) claim() driver.Claim {
	n := p.owners.Add(1)
	c := driver.Claim{
		Name:   p.name,
		Client: p.client,
		Seq:    n,
		Owner:  fmt.Sprintf("%s:%d", p.client, n),
		Mode:   driver.Exclusive,
		TTL:    p.long,
		Count:  1,
		Tokens: 1,
		Note:   fmt.Sprintf("drivertest@claim:%d", n),
	}
	if p.shape != nil {
		p.shape(&c)
	}
	return c
}

// on returns a new claim on another name.
func (p *probe) on(name string) driver.Claim {
	c := p.claim()
	c.Name = name
	return c
}

// several returns n new claims, each on a name of its own.
func (p *probe) several(n int) []driver.Claim {
	cs := make([]driver.Claim, n)
	for i := range cs {
		cs[i] = p.on(fmt.Sprintf("%s %d", p.name, i))
	}
	return cs
}

// contend starts as many workers as the parameter workers says. Each of them calls round, as
// many times as the parameter rounds says, until a call of any worker fails.
func (p *probe) contend(workers, rounds int, round func() error) {
	p.Helper()
	var failed atomic.Bool
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := 0; n < rounds && !failed.Load(); n++ {
				if err := round(); err != nil {
					failed.Store(true)
					p.Errorf("contender: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// tokens returns n, or Info.MaxTokens if a claim may not reserve n tokens.
func (p *probe) tokens(n int) int {
	if most := p.info.MaxTokens; most > 0 {
		return min(n, most)
	}
	return n
}

// has reports whether the store has the capability c.
func (p *probe) has(c capability) bool { return c(p.b) == "" }

// rounded returns the TTL that the store uses for ttl: at least Info.MinTTL, and rounded up to a
// multiple of Info.TTLStep.
func (p *probe) rounded(ttl time.Duration) time.Duration {
	ttl = max(ttl, p.info.MinTTL)
	if step := p.info.TTLStep; step > 0 && ttl%step > 0 {
		ttl += step - ttl%step
	}
	return ttl
}

// try makes one attempt, and ensures that cleanUp releases the claim.
func (p *probe) try(c driver.Claim) driver.Outcome {
	p.Helper()
	p.remember(c)
	o, err := p.storeOf(c).Try(p.ctx, c)
	if err != nil {
		p.Fatalf("Try(%s): got error %v, want an answer", c.Owner, err)
	}
	return o
}

// remember records c for cleanUp.
func (p *probe) remember(c driver.Claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried[c.Owner] = c
}

// mustGrant tries c, which must be granted. The parameter when describes the situation in
// messages.
func (p *probe) mustGrant(c driver.Claim, when string) driver.Outcome {
	p.Helper()
	o := p.try(c)
	if !o.Granted {
		p.Fatalf("Try %s: refused (held by %q), want a grant", when, o.Holder)
	}
	if o.ValidFor <= 0 {
		p.Errorf("Try %s: got ValidFor %v, want more than 0", when, o.ValidFor)
	}
	return o
}

// mustRefuse tries c, which must not be granted.
func (p *probe) mustRefuse(c driver.Claim, when string) driver.Outcome {
	p.Helper()
	o := p.try(c)
	if o.Granted {
		p.Fatalf("Try %s: granted with token %d, want a refusal", when, o.Token)
	}
	return o
}

// mustTurnAway tries c, which must not be granted, and then releases it: if claims queue in the
// store, others would wait for it.
func (p *probe) mustTurnAway(c driver.Claim, when string) {
	p.Helper()
	p.mustRefuse(c, when)
	p.withdraw(c)
}

// mustRelease ends c, which must be held.
func (p *probe) mustRelease(c driver.Claim, when string) {
	p.Helper()
	if err := p.storeOf(c).Release(p.ctx, c); err != nil {
		p.Fatalf("Release %s: got error %v, want nil", when, err)
	}
}

// mustNotRelease releases c, which must be gone.
func (p *probe) mustNotRelease(c driver.Claim, when string) {
	p.Helper()
	p.mustBeGone(p.storeOf(c).Release(p.ctx, c), "Release "+when)
}

// withdraw releases c, which may have been refused. The result may be driver.ErrGone, because
// the store need not keep anything of a refused claim.
func (p *probe) withdraw(c driver.Claim) {
	p.Helper()
	if err := p.storeOf(c).Release(p.ctx, c); err != nil && !errors.Is(err, driver.ErrGone) {
		p.Fatalf("Release of a refused claim: got error %v, want nil or ErrGone", err)
	}
}

// renew renews c alone and returns its answer.
func (p *probe) renew(c driver.Claim) driver.Renewal {
	p.Helper()
	answers, err := p.storeOf(c).Renew(p.ctx, []driver.Claim{c})
	if err != nil {
		p.Fatalf("Renew: got error %v, want an answer per claim", err)
	}
	if len(answers) != 1 {
		p.Fatalf("Renew: got %d answers to 1 claim", len(answers))
	}
	return answers[0]
}

// mustRenew renews c, which must be held.
func (p *probe) mustRenew(c driver.Claim, when string) driver.Renewal {
	p.Helper()
	r := p.renew(c)
	if r.Err != nil {
		p.Fatalf("Renew %s: got error %v, want nil", when, r.Err)
	}
	if r.ValidFor <= 0 {
		p.Errorf("Renew %s: got ValidFor %v, want more than 0", when, r.ValidFor)
	}
	return r
}

// mustNotRenew renews c, which must be gone.
func (p *probe) mustNotRenew(c driver.Claim, when string) {
	p.Helper()
	p.mustBeGone(p.renew(c).Err, "Renew "+when)
}

// mustNotBeHeld renews c, which was refused with o. It is not held, but a store with
// sessions may renew its position in the queue.
func (p *probe) mustNotBeHeld(c driver.Claim, o driver.Outcome, when string) {
	p.Helper()
	if !o.Queued || !p.has(sessions) {
		p.mustNotRenew(c, when)
	}
}

func (p *probe) mustBeGone(err error, what string) {
	p.Helper()
	if !errors.Is(err, driver.ErrGone) {
		p.Fatalf("%s: got error %v, want ErrGone", what, err)
	}
}

// promptly runs f and reports an error if it takes long.
func (p *probe) promptly(what string, f func()) {
	p.Helper()
	start := time.Now()
	starved := await.Starved(f)
	if took := time.Since(start) - starved; took > prompt {
		p.Errorf("%s took %v, want at most %v", what, took.Round(time.Millisecond), prompt)
	}
}

// acquire tries and waits until c is granted, as the core does. Several goroutines may call it.
// If the store wakes its waiters, a wait that is longer than prompt is an error: callers ensure
// that no claim holds for so long.
func (p *probe) acquire(c driver.Claim) (driver.Outcome, error) {
	var w driver.Waiter
	for {
		o, err := p.b.Try(p.ctx, c)
		if err != nil || o.Granted {
			return o, err
		}
		if w == nil {
			w = p.b.Waiter(c)
			defer w.Close()
		}
		if err := p.wait(w, o); err != nil {
			return o, err
		}
	}
}

func (p *probe) wait(w driver.Waiter, last driver.Outcome) error {
	if !p.info.Caps.Wakes {
		pause(p.ctx, 20*time.Millisecond)
		return p.ctx.Err()
	}
	_, err := p.waitPromptly(w, last)
	return err
}

// waitPromptly calls Wait with prompt as its timeout.
func (p *probe) waitPromptly(w driver.Waiter, last driver.Outcome) (o driver.Outcome, err error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		o, err = w.Wait(ctx, last)
	}()
	if !within(done) {
		cancel()
		if <-done; err != nil {
			err = fmt.Errorf("no wake-up within %v: %w", prompt, err)
		}
	}
	return o, err
}

// within reports whether done is closed within prompt, counted as retryWithin does.
func within(done <-chan struct{}) bool {
	return retryWithin(prompt, func() bool {
		select {
		case <-done:
			return true
		case <-time.After(prompt / 10):
			return false
		}
	})
}

// retryWithin calls round until it returns true, or until the time d has passed. It returns the
// last result of round. The time in which this process had no processor does not count.
func retryWithin(d time.Duration, round func() (done bool)) (done bool) {
	for d > 0 && !done {
		start := time.Now()
		starved := await.Starved(func() { done = round() })
		d -= time.Since(start) - starved
	}
	return done
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
