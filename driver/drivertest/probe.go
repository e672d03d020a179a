package drivertest

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/conformance"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// prompt is conformance.Prompt. The checks do not count the time in which this process had no
// processor.
const prompt = conformance.Prompt

// probe is a conformance.Probe of the store b.
type probe struct {
	*conformance.Probe
	b            driver.Backend
	capabilities map[string]bool // the capabilities of b

	short    time.Duration // the TTL of claims that must expire
	presence time.Duration // see Suite.Presence

	open        func() driver.Backend // opens the store once more, for another client
	mu          sync.Mutex
	ownSessions map[string]driver.Backend // by Claim.Client: the stores of clients with another session
}

// check runs the check c on the store b, with the settings of the Suite s. The function `open`
// opens the same store once more.
func (s Suite) check(c check, t testing.TB, b driver.Backend, open func() driver.Backend) {
	t.Helper()
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
	of, end := conformance.NewProbe(t, "drivertest", b, long)
	defer end()
	p := &probe{
		Probe: of, b: b, capabilities: capabilities(b),
		short: ttl, presence: presence,
		open: open, ownSessions: make(map[string]driver.Backend),
	}
	p.StoreOf = p.storeOf
	defer p.keepAlive()()
	c.body(p)
}

// on returns a new claim on the given name.
func (p *probe) on(name string) driver.Claim {
	c := p.Claim()
	c.Name = name
	return c
}

// several returns n new claims, each on a name of its own.
func (p *probe) several(n int) []driver.Claim {
	cs := make([]driver.Claim, n)
	for i := range cs {
		cs[i] = p.on(fmt.Sprintf("%s %d", p.Name, i))
	}
	return cs
}

// contend starts as many workers as the parameter `workers` says. Each worker calls the
// function `round` as many times as `rounds` says. All workers stop when a call of one worker
// fails.
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
	if most := p.Info.MaxTokens; most > 0 {
		return min(n, most)
	}
	return n
}

// has reports whether the store has a capability.
func (p *probe) has(capability string) bool { return p.capabilities[capability] }

// mustTurnAway tries c, which must not be granted, and then releases c. Without the release,
// other claims would wait for c in a store with a queue.
func (p *probe) mustTurnAway(c driver.Claim, when string) {
	p.Helper()
	p.MustRefuse(c, when)
	p.Withdraw(c)
}

// mustNotBeHeld requires that a refused claim is not held: a renewal of c must fail. `o` is the
// Outcome of the refused Try. If c is queued in a store with sessions, there is no check,
// because such a store may renew the position in the queue.
func (p *probe) mustNotBeHeld(c driver.Claim, o driver.Outcome, when string) {
	p.Helper()
	if !o.Queued || !p.has(sessions) {
		p.MustNotRenew(c, when)
	}
}

// promptly runs f and reports an error if f takes longer than the duration `prompt`.
func (p *probe) promptly(what string, f func()) {
	p.Helper()
	start := time.Now()
	starved := await.Starved(f)
	if took := time.Since(start) - starved; took > prompt {
		p.Errorf("%s took %v, want at most %v", what, took.Round(time.Millisecond), prompt)
	}
}

// acquire calls Try and Wait in turn until c is granted, as the core does. Several goroutines
// may call it. If the store wakes its waiters, a wait that is longer than the duration `prompt`
// is an error, because the callers of acquire ensure that no claim holds for so long.
func (p *probe) acquire(c driver.Claim) (driver.Outcome, error) {
	var w driver.Waiter
	for {
		o, err := p.b.Try(p.Ctx, c)
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
	if !p.Info.Caps.Wakes {
		pause(p.Ctx, 20*time.Millisecond)
		return p.Ctx.Err()
	}
	_, err := p.waitPromptly(w, last)
	return err
}

// waitPromptly calls Wait with a timeout of the duration `prompt`.
func (p *probe) waitPromptly(w driver.Waiter, last driver.Outcome) (o driver.Outcome, err error) {
	ctx, cancel := context.WithCancel(p.Ctx)
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

// within reports whether a channel is closed before the duration `prompt` has passed. It
// measures that duration as retryWithin does.
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

// retryWithin calls the function `round` until it returns true, or until the duration d has
// passed. It returns the last result of that function. The time in which this process had no
// processor does not count.
func retryWithin(d time.Duration, round func() (done bool)) (done bool) {
	for d > 0 && !done {
		start := time.Now()
		starved := await.Starved(func() { done = round() })
		d -= time.Since(start) - starved
	}
	return done
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) { retry.Sleep(ctx, d) }
