package work

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// phase is where a sample is. The goroutines work through from the first to the
// last: to stop them after the warm-up would cancel locks half-way, which some
// peers then leave to their leases.
type phase = int32

const (
	warming phase = iota
	measuring
	over
)

// crew is the goroutines of a process that lock and unlock.
type crew struct {
	plan  Plan
	page  *page
	tasks []task

	phase      atomic.Int32
	violations atomic.Int64
}

// tally is what one goroutine has done while it was measured.
type tally struct {
	pairs   int64
	turns   int64
	longest time.Duration
	dead    []time.Duration
	err     error
}

// pairs locks and unlocks for a sample.
func pairs(p peer.Peer, plan Plan, shared *page, parent parent) (Result, error) {
	c := &crew{plan: plan, page: shared}
	for g := range plan.Work.Goroutines {
		t, err := newTask(p, plan, g)
		if err != nil {
			return Result{}, err
		}
		c.tasks = append(c.tasks, t)
	}
	if plan.Sample == 0 {
		return c.count(parent)
	}
	return c.clock(parent)
}

// clock lets the goroutines work for the time of the plan.
func (c *crew) clock(parent parent) (Result, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tallies := make([]tally, len(c.tasks))
	var wg sync.WaitGroup
	for i, t := range c.tasks {
		wg.Go(func() { tallies[i] = c.repeat(ctx, t) })
	}
	elapsed, before, after, err := c.watch(parent)
	c.phase.Store(over)
	if c.tasks[0].shared { // others are between two locks, and at their end in a moment
		cancel()
	}
	wg.Wait()
	if err != nil {
		return Result{}, err
	}
	return c.gather(tallies, elapsed, before, after)
}

// watch waits for the parent, then for the sample to be over.
func (c *crew) watch(parent parent) (elapsed time.Duration, before, after usage, err error) {
	time.Sleep(time.Duration(c.plan.Warm))
	runtime.GC()
	if err := parent.start(); err != nil {
		return 0, before, after, err
	}
	before = used()
	at := time.Now()
	c.phase.CompareAndSwap(warming, measuring)
	time.Sleep(time.Duration(c.plan.Sample))
	c.phase.Store(over)
	elapsed = time.Since(at)
	after = used()
	return elapsed, before, after, parent.finish()
}

// repeat does pairs until the sample is over.
func (c *crew) repeat(ctx context.Context, t task) (done tally) {
	for n := int64(0); c.phase.Load() != over; n++ {
		if err := c.pair(ctx, t, n, &done); err != nil {
			if c.phase.Swap(over) != over {
				done.err = err
			}
			return done
		}
	}
	return done
}

// count lets the goroutines do as many pairs as the plan says.
func (c *crew) count(parent parent) (Result, error) {
	for _, t := range c.tasks { // every connection is made, every script is known
		if done := c.times(t, 3); done.err != nil {
			return Result{}, done.err
		}
	}
	runtime.GC()
	if err := parent.start(); err != nil {
		return Result{}, err
	}
	c.phase.Store(measuring)
	before, at := used(), time.Now()
	tallies := make([]tally, len(c.tasks))
	var wg sync.WaitGroup
	for i, t := range c.tasks {
		wg.Go(func() { tallies[i] = c.times(t, max(1, c.plan.Pairs/len(c.tasks))) })
	}
	wg.Wait()
	elapsed, after := time.Since(at), used()
	if err := parent.finish(); err != nil {
		return Result{}, err
	}
	return c.gather(tallies, elapsed, before, after)
}

// times does so many pairs.
func (c *crew) times(t task, pairs int) (done tally) {
	for n := 0; n < pairs && done.err == nil; n++ {
		done.err = c.pair(context.Background(), t, int64(n), &done)
	}
	return done
}

// pair takes a lock, checks that nobody else has it, and releases it.
func (c *crew) pair(ctx context.Context, t task, n int64, done *tally) error {
	var asked time.Time
	var waited, idle time.Duration
	if t.shared {
		asked = time.Now()
	}
	held, rule, err := t.take(ctx, n)
	if t.shared {
		waited = time.Since(asked)
	}
	if err != nil {
		done.longest = max(done.longest, waited) // it may have been in vain all the time
		return err
	}
	if !c.page.enter(t.slot, rule) {
		c.violations.Add(1)
	}
	turn := t.shared && c.plan.Work.Processes > 1 && c.page.takes(t.slot, c.plan.Process)
	if c.plan.Work.Hold > 0 {
		idle = c.page.sinceVacated(t.slot)
		time.Sleep(time.Duration(c.plan.Work.Hold))
		c.page.vacated(t.slot)
	}
	c.page.leave(t.slot, rule)
	if err := held.Unlock(); err != nil {
		return err
	}
	if c.phase.Load() == measuring {
		done.add(waited, idle, turn)
	}
	return nil
}

// add counts a pair; an idle time of 0 is none.
func (t *tally) add(waited, idle time.Duration, turn bool) {
	t.pairs++
	if turn {
		t.turns++
	}
	t.longest = max(t.longest, waited)
	if idle > 0 {
		t.dead = append(t.dead, idle)
	}
}

// gather puts everything together.
func (c *crew) gather(tallies []tally, elapsed time.Duration, before, after usage) (Result, error) {
	r := Result{Elapsed: elapsed, Violations: c.violations.Load()}
	r.add(before, after)
	var errs []error
	for _, t := range tallies {
		r.Pairs += t.pairs
		r.Turns += t.turns
		r.Each = append(r.Each, t.pairs)
		r.Longest = max(r.Longest, t.longest)
		r.Dead = append(r.Dead, t.dead...)
		errs = append(errs, t.err)
	}
	return r, errors.Join(errs...)
}
