package matrix

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// attempts is how often a cell runs at most.
	attempts = 3
	// repeats is how many cells of all may run again.
	repeats = 8
	// standstill is for how long the machine may leave this process without a
	// processor. A cell that fails while it was longer proves nothing: its bounds
	// are the library's, not the machine's.
	standstill = 40 * time.Millisecond
)

// attempt is one go at a cell: a testing.TB that keeps its failures to itself.
type attempt struct {
	testing.TB
	clock  *clock
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	verdict  verdict
	cleanups []func()
}

// verdict is what came of an attempt.
type verdict struct {
	failures []string
	breach   bool   // one of them is of a kind that no standstill explains
	skipped  string // why it cannot run here
}

func (v *verdict) add(other verdict) {
	v.failures = append(v.failures, other.failures...)
	v.breach = v.breach || other.breach
	v.skipped = cmp.Or(v.skipped, other.skipped)
}

// try runs a cell once and returns what failed. c runs meanwhile.
func try(t testing.TB, c *clock, run func(*attempt)) verdict {
	a := &attempt{TB: t, clock: c}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // its own, for FailNow to end
		defer close(done)
		defer a.cleanUp()
		run(a)
	}()
	<-done
	return a.verdict
}

func (a *attempt) cleanUp() {
	a.cancel()
	for len(a.cleanups) > 0 {
		last := a.cleanups[len(a.cleanups)-1]
		a.cleanups = a.cleanups[:len(a.cleanups)-1]
		last()
	}
}

// Cleanup implements testing.TB.
func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

// Context implements testing.TB.
func (a *attempt) Context() context.Context { return a.ctx }

// Failed implements testing.TB.
func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.verdict.failures) > 0
}

// Error implements testing.TB.
func (a *attempt) Error(args ...any) { a.fail(fmt.Sprint(args...), false) }

// Errorf implements testing.TB.
func (a *attempt) Errorf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...), false) }

// Fatal implements testing.TB.
func (a *attempt) Fatal(args ...any) { a.fail(fmt.Sprint(args...), false); a.FailNow() }

// Fatalf implements testing.TB.
func (a *attempt) Fatalf(format string, args ...any) {
	a.fail(fmt.Sprintf(format, args...), false)
	a.FailNow()
}

// Fail implements testing.TB.
func (a *attempt) Fail() { a.fail("failed", false) }

// FailNow implements testing.TB.
func (a *attempt) FailNow() { runtime.Goexit() }

// breach is Errorf for what no standstill of the machine explains: the cell is
// not run again, and package again gives it no second run. Where t is no attempt it is
// Errorf.
func breach(t testing.TB, format string, args ...any) {
	t.Helper()
	format = "breach: " + format
	if a, ok := t.(*attempt); ok {
		a.fail(fmt.Sprintf(format, args...), true)
		return
	}
	t.Errorf(format, args...)
}

// skip ends an attempt that cannot be made here.
func (a *attempt) skip(why string) {
	a.mu.Lock()
	a.verdict.skipped = why
	a.mu.Unlock()
	a.FailNow()
}

func (a *attempt) fail(text string, breach bool) {
	var lines []string
	callers := make([]uintptr, 10)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name := filepath.Base(f.File)
		if name == "matrix_test.go" {
			break
		}
		lines = append(lines, fmt.Sprintf("%s:%d", name, f.Line))
	}
	slices.Reverse(lines)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verdict.add(verdict{failures: []string{strings.Join(lines, " > ") + ": " + text}, breach: breach})
}

// clock watches how late threads of this process get a processor: as many as there
// are processors, of which one alone may stand still.
type clock struct {
	worst atomic.Int64
	stop  chan struct{}
	done  sync.WaitGroup
}

func startClock() *clock {
	c := &clock{stop: make(chan struct{})}
	for range runtime.NumCPU() {
		c.done.Go(c.watch)
	}
	return c
}

func (c *clock) watch() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const every = 5 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		now := time.Now()
		late := int64(now.Sub(last) - every)
		for worst := c.worst.Load(); late > worst && !c.worst.CompareAndSwap(worst, late); worst = c.worst.Load() {
		}
		last = now
	}
}

func (c *clock) close() {
	close(c.stop)
	c.done.Wait()
}

// late returns by how much it was late at most until now.
func (c *clock) late() time.Duration { return time.Duration(c.worst.Load()) }

// conclusive runs a cell until the outcome says something: it succeeded, failed while
// the machine was well, or failed in a way that the machine has no part in. It
// counts cells that run again.
func conclusive(t testing.TB, repeated *atomic.Int32, run func(n int, c *clock) verdict) verdict {
	for n := 1; ; n++ {
		c := startClock()
		v := run(n, c)
		c.close()
		if v.conclusive(c.late()) || n == attempts {
			return v
		}
		if n == 1 {
			repeated.Add(1)
		}
		t.Logf("run again, as the machine stood still for %v: %q", c.late(), v.failures)
	}
}

// conclusive says that the verdict stands where the machine stood still for late.
func (v verdict) conclusive(late time.Duration) bool {
	return len(v.failures) == 0 || v.breach || late < standstill
}

func TestConclusive(t *testing.T) {
	for _, tc := range []struct {
		run  func(*attempt)
		late time.Duration
		runs int
	}{
		{func(*attempt) {}, time.Second, 1},
		{func(a *attempt) { a.Error("late") }, 0, 1},
		{func(a *attempt) { a.Error("late") }, time.Second, attempts},
		{func(a *attempt) { a.Error("late"); breach(a, "tokens") }, time.Second, 1},
		{func(a *attempt) { a.skip("no compiler") }, time.Second, 1},
	} {
		var repeated atomic.Int32
		runs := 0
		v := conclusive(t, &repeated, func(_ int, c *clock) verdict {
			runs++
			c.worst.Add(int64(tc.late))
			return try(t, c, tc.run)
		})
		if runs != tc.runs || (repeated.Load() == 1) != (runs > 1) {
			t.Errorf("%+v: ran %d times, want %d; counted %d", v, runs, tc.runs, repeated.Load())
		}
	}
}

func TestAttempt(t *testing.T) {
	var order []int
	v := try(t, nil, func(a *attempt) {
		a.Cleanup(func() { order = append(order, 2) })
		a.Cleanup(func() { order = append(order, 1) })
		a.Errorf("one")
		a.Fatalf("two")
		a.Errorf("three")
	})
	if len(v.failures) != 2 || len(order) != 2 || order[0] != 1 {
		t.Errorf("got failures %q and cleanups %v", v.failures, order)
	}
}
