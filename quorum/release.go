package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Release releases the claim on all nodes. It returns nil as soon as a majority has
// released it. The releases at the other nodes continue in the background, for one TTL at
// most. Release returns driver.ErrGone if this Backend has nothing of the claim, or if a
// majority had lost it before. Any other error names the nodes without an answer: the
// releases continue, and a second call returns their result.
func (b *Backend) Release(ctx context.Context, c driver.Claim) error {
	if err := over(ctx); err != nil {
		return err
	}
	if c.Indeterminate {
		b.giveUp(c)
	}
	a := b.find(c)
	if a == nil {
		return &driver.GoneError{Reason: driver.ReasonExpired, Detail: "nothing of the claim is left: it expired or was released"}
	}
	b.vacate(a, c)
	err := b.await(ctx, a, callTimeout(ctx, c.TTL))
	if err == nil || errors.Is(err, driver.ErrGone) {
		b.forget(a)
	}
	return err
}

// withdraw forgets an attempt, and releases it in the background.
func (b *Backend) withdraw(a *attempt, c driver.Claim) {
	b.forget(a)
	b.vacate(a, c)
}

// vacate begins to release an attempt on all nodes, in the background. Only its first call for
// an attempt has an effect.
func (b *Backend) vacate(a *attempt, c driver.Claim) {
	if !a.close() {
		return
	}
	for i := range b.nodes {
		b.background.Go(func() { b.leaveSeat(a, i, a.at(c)) })
	}
}

// leaveSeat releases an attempt at one node. It repeats the release until the node has
// certainly nothing of the attempt, or until one TTL has passed. After that time the lease at
// the node has expired.
func (b *Backend) leaveSeat(a *attempt, i int, c driver.Claim) {
	n := b.nodes[i]
	ctx, cancel := context.WithTimeout(context.Background(), c.TTL)
	defer cancel()
	// A try that is under way must end first, so that the release undoes it.
	if err := acquireSem(ctx, a.seats[i].sem); err != nil {
		a.finish(i, pending, err)
		return
	}
	defer releaseSem(a.seats[i].sem)
	s := a.seat(i)
	if !s.held && !s.indeterminate {
		a.finish(i, unused, nil)
		return
	}
	c.Indeterminate = c.Indeterminate || s.indeterminate
	defer n.releasing.Add(-1)
	many := n.releasing.Add(1) > mostReleases
	unsure := false
	for failures := 0; ; failures++ {
		attempt, end := context.WithTimeout(ctx, min(callTimeout(context.Background(), c.TTL)<<min(failures, 3), 2*time.Second))
		err := n.release(attempt, c)
		end()
		gone := errors.Is(err, driver.ErrGone)
		switch {
		case err == nil || gone && unsure:
			a.finish(i, released, nil)
			return
		case gone:
			a.finish(i, lost, nil)
			return
		}
		unsure = unsure || !errors.Is(err, driver.ErrNotExecuted)
		a.finish(i, pending, err)
		pause := min(10*time.Millisecond<<min(failures, 10), 250*time.Millisecond)
		if many || sleep(ctx, pause/2+rand.N(pause)/2) != nil { //nolint:gosec // spreads load, protects nothing
			return
		}
	}
}

// await waits until it is certain whether the attempt was released, and returns that result. It
// waits for the time `limit` at most. It returns earlier if only slow nodes have not answered,
// or when ctx ends.
func (b *Backend) await(ctx context.Context, a *attempt, limit time.Duration) error {
	early, late := time.NewTimer(grace(limit)), time.NewTimer(limit)
	defer early.Stop()
	defer late.Stop()
	impatient, last := false, false
	for {
		ended, changed := b.verdict(a)
		switch {
		case ended.certain:
			return ended.err
		case last || impatient && b.slowOnly(ended.waiting):
			return b.resultWithoutMissing(a, ended)
		}
		select {
		case <-changed:
		case <-early.C:
			impatient = true
		case <-late.C:
			last = true
		case <-ctx.Done():
			return fmt.Errorf("quorum: release of %q: %w", a.id.name, ctx.Err())
		}
	}
}

// outcome is what is known about an attempt that is being released.
type outcome struct {
	certain                  bool
	err                      error        // the error of the release, if its result is certain
	free, released, vanished int          // how many seats have ended; how many of them were released; how many of them were held, but lost
	waiting                  map[int]bool // the nodes whose seats have not ended
}

// verdict counts the seats that have ended. The channel `changed` is closed when another seat
// ends.
func (b *Backend) verdict(a *attempt) (o outcome, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o.waiting = map[int]bool{}
	held := 0
	for i, s := range a.seats {
		if s.held {
			held++
		}
		switch s.end {
		case pending:
			o.waiting[i] = true
			continue
		case released:
			o.released++
		case lost:
			// Only a seat that was held can vanish. A try without an answer may never have
			// arrived, and a seat that a renewal found gone does not count as held.
			if s.held {
				o.vanished++
			}
		}
		o.free++
	}
	switch {
	case o.released >= b.majority, !a.won && len(o.waiting) == 0 && o.released > 0:
		o.certain = true
	case a.won && held-o.vanished < b.majority && o.free >= b.majority, len(o.waiting) == 0:
		o.certain, o.err = true, &driver.GoneError{Reason: driver.ReasonExpired, Detail: "a majority of the nodes had lost the claim"}
	}
	return o, a.changed
}

// resultWithoutMissing returns the result of a release if the nodes in o.waiting do not answer.
// It returns nil if the name is free on a majority, because then other clients can get it. Else
// it returns an error that names the nodes in o.waiting.
func (b *Backend) resultWithoutMissing(a *attempt, o outcome) error {
	if a.won && o.free >= b.majority && o.released > 0 {
		return nil
	}
	e := &nodesError{does: fmt.Sprintf("release of %q is not certain", a.id.name)}
	for i, n := range b.nodes {
		if !o.waiting[i] {
			continue
		}
		err := a.seat(i).err
		if err == nil {
			err = errNoAnswer
		}
		e.add(n, err)
	}
	return e
}
