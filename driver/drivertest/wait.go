package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
)

func waitReturnsOnRelease(p *probe) {
	// With these delays, the release comes before the waiter calls Wait, just after that, or
	// later.
	for _, delay := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		a, b := p.Claim(), p.Claim()
		p.MustGrant(a, "of a free name")
		p.MustRefuse(b, "of a held name")

		var released time.Time
		var err error
		var wg sync.WaitGroup
		wg.Go(func() {
			pause(p.Ctx, delay)
			err = p.b.Release(p.Ctx, a)
			released = time.Now()
		})
		var waitErr error
		starved := await.Starved(func() { _, waitErr = p.acquire(b) })
		got := time.Now()
		wg.Wait()
		if err != nil {
			p.Fatalf("Release while another claim waits: got error %v, want nil", err)
		}
		if waitErr != nil {
			p.Fatalf("waiting for a release after %v: %v", delay, waitErr)
		}
		if late := got.Sub(released) - starved; late > prompt {
			p.Errorf("Wait: the claim was granted %v after the release, want at most %v", late, prompt)
		}
		p.MustRelease(b, "of the waiter's grant")
	}
}

func waitMissesNothing(p *probe) {
	p.releasedBeforeWait(false)
	p.releasedBeforeWait(true)
	p.handOffs()
}

// releasedBeforeWait releases the name between a refused Try and the first Wait. Wait must
// return all the same. If `retaken` is true, another claim takes the name before Wait, and gives
// it back. A store may know of both, and need not return for the first release.
func (p *probe) releasedBeforeWait(retaken bool) {
	p.Helper()
	a, b, next := p.Claim(), p.Claim(), p.Claim()
	p.MustGrant(a, "of a free name")
	last := p.MustRefuse(b, "of a held name")
	w := p.b.Waiter(b)
	defer w.Close()
	p.MustRelease(a, "between a refused Try and its Wait")
	if retaken {
		p.Try(next) // a store with a queue may refuse this claim, because b is the first waiter
		p.Withdraw(next)
	}
	if err := p.wait(w, last); err != nil {
		p.Fatalf("Wait after the name was released (and another claim took and released it: %v): got error %v", retaken, err)
	}
	p.Withdraw(b)
}

// handOffs lets several claims take the name in turn, each for a very short time. If a wake-up
// got lost, a claim would wait while the name is free, and the check would fail.
func (p *probe) handOffs() {
	p.Helper()
	var s section
	p.contend(3, 60, func() error { return p.pass(&s) })
}

func waitDoesNotSpin(p *probe) {
	a, b := p.Claim(), p.Claim()
	p.MustGrant(a, "of a free name")
	p.mustNotSpin(p.b.Waiter(b), func() driver.Outcome { return p.MustRefuse(b, "of a held name") })
}

// mustNotSpin calls w.Wait repeatedly while nothing changes. Before each Wait it calls the
// function `again`, where the core would call Try. Wait may return early, but not so often that
// the caller polls the store.
func (p *probe) mustNotSpin(w driver.Waiter, again func() driver.Outcome) {
	p.Helper()
	defer w.Close()
	const limit = 30
	last := again()
	ctx, cancel := context.WithTimeout(p.Ctx, 300*time.Millisecond)
	defer cancel()
	for n := 0; ; n++ {
		if _, err := w.Wait(ctx, last); err != nil {
			return
		}
		if n == limit {
			p.Fatalf("Wait returned %d times while nothing changed", n)
		}
		last = again()
	}
}

// waitGrantsWhatIsHeld lets a claim wait before and after the release of the holder. If Wait
// returns a grant, the claim that waited must hold the name, and other claims must be refused.
func waitGrantsWhatIsHeld(p *probe) {
	a, b, other := p.Claim(), p.Claim(), p.Claim()
	before := p.MustGrant(a, "of a free name")
	w := p.b.Waiter(b)
	defer w.Close()
	last := p.MustRefuse(b, "of a held name")
	for range 3 {
		ctx, cancel := context.WithTimeout(p.Ctx, 20*time.Millisecond)
		out, _ := w.Wait(ctx, last) // the first Wait may only begin to listen
		cancel()
		if out.Granted {
			p.Fatalf("Wait while another holds: got a grant with token %d, want none", out.Token)
		}
		last = p.MustRefuse(b, "of a held name")
	}
	p.MustRelease(a, "of the holder")
	out, err := p.waitPromptly(w, last)
	if err != nil {
		p.Fatalf("Wait after the release: %v", err)
	}
	if out.Granted {
		p.mustTurnAway(other, "of a name that Wait has granted to another claim")
	}
	if now := p.MustGrant(b, "after Wait returned"); out.Granted && (out.ValidFor <= 0 || p.has(fencing) && (out.Token <= before.Token || now.Token < out.Token)) {
		p.Errorf("Wait: got a grant with token %d and ValidFor %v; want a token between those before and after it, %d and %d, and a ValidFor above 0", out.Token, out.ValidFor, before.Token, now.Token)
	}
}

// waitIsWokenAfterLong waits for Info.Recheck, at most three seconds, before it releases the
// name. A store with Info.Recheck promises that a waiter misses no release in that time.
func waitIsWokenAfterLong(p *probe) {
	const most = 3 * time.Second
	a, b := p.Claim(), p.Claim()
	p.MustGrant(a, "of a free name")
	w := p.b.Waiter(b)
	defer w.Close()
	last := p.MustRefuse(b, "of a held name")
	ctx, cancel := context.WithTimeout(p.Ctx, min(p.Info.Recheck, most))
	defer cancel()
	for ctx.Err() == nil {
		if _, err := w.Wait(ctx, last); err == nil {
			last = p.MustRefuse(b, "of a held name")
		} else if ctx.Err() == nil {
			p.Fatalf("Wait of a store with Info.Recheck: got error %v", err)
		}
	}
	p.MustRelease(a, "of the holder")
	if err := p.wait(w, last); err != nil {
		p.Fatalf("Wait after a release that came late: %v", err)
	}
	p.MustGrant(b, "after a release that came late")
}

func waitHonoursContext(p *probe) {
	a, b := p.Claim(), p.Claim()
	p.MustGrant(a, "of a free name")
	last := p.MustRefuse(b, "of a held name")

	p.b.Waiter(b).Close() // before any Wait: there is nothing to close

	p.waitCancelled(b, last, 0)
	p.waitCancelled(b, last, 50*time.Millisecond)
	p.Withdraw(b)
	p.MustRelease(a, "after a cancelled wait")
	p.MustGrant(p.Claim(), "after a cancelled wait")
}

// waitCancelled waits for c with a context that is cancelled after the time `delay`.
func (p *probe) waitCancelled(c driver.Claim, last driver.Outcome, delay time.Duration) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Ctx)
	defer cancel()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = p.waitUntilError(ctx, c, last)
	}()
	pause(p.Ctx, delay)
	cancel()

	if !within(done) {
		p.CleanUp() // releases the name, so Wait probably ends
		<-done
		p.Fatalf("Wait did not return within %v after its context was cancelled", prompt)
	}
	if p.has(wakes) {
		p.MustBeCancelled(err, "Wait with a cancelled context")
	}
}

// waitUntilError calls Wait and Try in turn, because Wait may return early. It returns the
// first error of these calls. After 100 rounds without an error it returns nil.
func (p *probe) waitUntilError(ctx context.Context, c driver.Claim, last driver.Outcome) error {
	w := p.b.Waiter(c)
	defer w.Close()
	for range 100 {
		if _, err := w.Wait(ctx, last); err != nil {
			return err
		}
		next, err := p.b.Try(p.Ctx, c)
		if err != nil {
			return err
		}
		last = next
	}
	return nil
}
