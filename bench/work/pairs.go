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

// workers is the goroutines of a process that lock and unlock.
type workers struct {
	plan  Plan
	page  *page
	tasks []task

	phase      atomic.Int32
	violations atomic.Int64
	latency    *Latencies // of pairs; nil where they are not recorded
	dead       *Latencies // from the begin of an unlock to the next holder; nil where nobody holds
}

// tally is what one goroutine has done while it was measured.
type tally struct {
	pairs   int64
	turns   int64
	longest time.Duration
	every   int64 // one in so many pairs is recorded; 0: none
	err     error
}

// recorded is how many pairs all goroutines together record in the time of the warm-up.
// A clock is read for each, which would cost a twentieth where a pair takes no request.
const recorded = 1000

// interval returns every how many pairs one is recorded by a goroutine that did n in the
// warm-up.
func (w *workers) interval(n int64) int64 {
	if w.latency == nil {
		return 0
	}
	return 1 + n*int64(len(w.tasks))/recorded
}

// pairs locks and unlocks for a sample.
func pairs(p peer.Peer, plan Plan, shared *page, parent parent) (Result, error) {
	w := &workers{plan: plan, page: shared}
	for g := range plan.Work.Goroutines {
		t, err := newTask(p, plan, g)
		if err != nil {
			return Result{}, err
		}
		w.tasks = append(w.tasks, t)
	}
	if plan.Work.Hold > 0 {
		w.dead = NewLatencies()
	}
	if plan.Sample == 0 {
		return w.count(parent)
	}
	if plan.Work.Hold == 0 {
		w.latency = NewLatencies()
	}
	return w.clock(parent)
}

// clock lets the goroutines work for the time of the plan.
func (w *workers) clock(parent parent) (Result, error) {
	ctx, cancel := context.Background(), func() {}
	if w.tasks[0].shared { // the others wait for nobody: theirs is the context of a caller that never gives up
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	tallies := make([]tally, len(w.tasks))
	var wg sync.WaitGroup
	for i, t := range w.tasks {
		wg.Go(func() { tallies[i] = w.repeat(ctx, t) })
	}
	elapsed, before, after, err := w.watch(parent)
	w.phase.Store(over)
	cancel()
	wg.Wait()
	if err != nil {
		return Result{}, err
	}
	return w.gather(tallies, elapsed, before, after)
}

// watch waits for the parent, then for the sample to be over.
func (w *workers) watch(parent parent) (elapsed time.Duration, before, after usage, err error) {
	time.Sleep(time.Duration(w.plan.Warm))
	runtime.GC()
	if err := parent.start(); err != nil {
		return 0, before, after, err
	}
	before = used()
	at := time.Now()
	w.phase.CompareAndSwap(warming, measuring)
	time.Sleep(time.Duration(w.plan.Sample))
	w.phase.Store(over)
	elapsed = time.Since(at)
	after = used()
	return elapsed, before, after, parent.finish()
}

// repeat does pairs until the sample is over.
func (w *workers) repeat(ctx context.Context, t task) (done tally) {
	for n := int64(0); ; n++ {
		switch w.phase.Load() {
		case over:
			return done
		case measuring:
			if done.every == 0 {
				done.every = w.interval(n)
			}
		}
		if err := w.pair(ctx, t, n, &done); err != nil {
			if w.phase.Swap(over) != over {
				done.err = err
			}
			return done
		}
	}
}

// count lets the goroutines do as many pairs as the plan says, on one core: on several, the
// Go runtime wakes threads by reading and writing, more often on a busy machine.
func (w *workers) count(parent parent) (Result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, t := range w.tasks { // every connection is made, every script is known
		if done := w.times(t, 3); done.err != nil {
			return Result{}, done.err
		}
	}
	runtime.GC()
	if err := parent.start(); err != nil {
		return Result{}, err
	}
	w.phase.Store(measuring)
	before, at := used(), time.Now()
	tallies := make([]tally, len(w.tasks))
	var wg sync.WaitGroup
	for i, t := range w.tasks {
		wg.Go(func() { tallies[i] = w.times(t, max(1, w.plan.Pairs/len(w.tasks))) })
	}
	wg.Wait()
	elapsed, after := time.Since(at), used()
	if err := parent.finish(); err != nil {
		return Result{}, err
	}
	return w.gather(tallies, elapsed, before, after)
}

// times does so many pairs.
func (w *workers) times(t task, pairs int) (done tally) {
	for n := 0; n < pairs && done.err == nil; n++ {
		done.err = w.pair(context.Background(), t, int64(n), &done)
	}
	return done
}

// pair takes a lock, checks that nobody else has it, and releases it.
func (w *workers) pair(ctx context.Context, t task, n int64, done *tally) error {
	var asked time.Time
	var waited, idle time.Duration
	record := done.every > 0 && n%done.every == 0
	if t.shared || record {
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
	if !w.page.enter(rule.slot, rule) {
		w.violations.Add(1)
	}
	turn := t.shared && w.plan.Work.Processes > 1 && w.page.takes(rule.slot, w.plan.Process)
	if w.plan.Work.Hold > 0 {
		idle = w.page.sinceVacated(rule.slot)
		time.Sleep(time.Duration(w.plan.Work.Hold))
		w.page.vacated(rule.slot)
	}
	w.page.leave(rule.slot, rule)
	if err := held.Unlock(); err != nil {
		return err
	}
	if w.phase.Load() != measuring {
		return nil
	}
	if record {
		w.latency.Add(time.Since(asked))
	}
	if idle > 0 {
		w.dead.Add(idle)
	}
	done.add(waited, turn)
	return nil
}

// add counts a pair.
func (t *tally) add(waited time.Duration, turn bool) {
	t.pairs++
	if turn {
		t.turns++
	}
	t.longest = max(t.longest, waited)
}

// gather puts everything together.
func (w *workers) gather(tallies []tally, elapsed time.Duration, before, after usage) (Result, error) {
	r := Result{Elapsed: elapsed, Violations: w.violations.Load(), Latency: w.latency, Dead: w.dead}
	r.add(before, after)
	var errs []error
	for _, t := range tallies {
		r.Pairs += t.pairs
		r.Turns += t.turns
		r.Each = append(r.Each, t.pairs)
		r.Longest = max(r.Longest, t.longest)
		errs = append(errs, t.err)
	}
	return r, errors.Join(errs...)
}
