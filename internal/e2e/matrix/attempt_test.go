package matrix

import (
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
	// attempts is how often a cell is played at most.
	attempts = 3
	// standstill is for how long the machine may leave this process without a
	// processor. A cell that fails while it was longer proves nothing: its bounds
	// are the library's, not the machine's.
	standstill = 40 * time.Millisecond
)

// attempt is one go at a cell: a testing.TB that keeps its failures to itself.
type attempt struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// try plays once and returns what failed.
func try(t testing.TB, play func(*attempt)) []string {
	a := &attempt{TB: t}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // its own, for FailNow to end
		defer close(done)
		defer a.cleanUp()
		play(a)
	}()
	<-done
	return a.failures
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
	return len(a.failures) > 0
}

// Error implements testing.TB.
func (a *attempt) Error(args ...any) { a.fail(fmt.Sprint(args...)) }

// Errorf implements testing.TB.
func (a *attempt) Errorf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...)) }

// Fatal implements testing.TB.
func (a *attempt) Fatal(args ...any) { a.fail(fmt.Sprint(args...)); a.FailNow() }

// Fatalf implements testing.TB.
func (a *attempt) Fatalf(format string, args ...any) {
	a.fail(fmt.Sprintf(format, args...))
	a.FailNow()
}

// Fail implements testing.TB.
func (a *attempt) Fail() { a.fail("failed") }

// FailNow implements testing.TB.
func (a *attempt) FailNow() { runtime.Goexit() }

func (a *attempt) fail(text string) {
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
	a.failures = append(a.failures, strings.Join(lines, " > ")+": "+text)
}

// clock watches how late this process gets a processor.
type clock struct {
	worst atomic.Int64
	stop  chan struct{}
	done  chan struct{}
}

func startClock() *clock {
	c := &clock{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
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
			if late := int64(now.Sub(last) - every); late > c.worst.Load() {
				c.worst.Store(late)
			}
			last = now
		}
	}()
	return c
}

func (c *clock) close() {
	close(c.stop)
	<-c.done
}

// worstOf returns by how much the clock was late while f ran.
func worstOf(f func()) time.Duration {
	c := startClock()
	defer c.close()
	f()
	return time.Duration(c.worst.Load())
}

// conclusive plays until the outcome says something: it succeeded, or failed
// while the machine was well.
func conclusive(t testing.TB, play func(n int) []string) []string {
	for n := 1; ; n++ {
		var failures []string
		late := worstOf(func() { failures = play(n) })
		if len(failures) == 0 || late < standstill || n == attempts {
			return failures
		}
		t.Logf("played again, as the machine stood still for %v: %q", late, failures)
	}
}

func TestAttempt(t *testing.T) {
	var order []int
	failures := try(t, func(a *attempt) {
		a.Cleanup(func() { order = append(order, 2) })
		a.Cleanup(func() { order = append(order, 1) })
		a.Errorf("one")
		a.Fatalf("two")
		a.Errorf("three")
	})
	if len(failures) != 2 || len(order) != 2 || order[0] != 1 {
		t.Errorf("got failures %q and cleanups %v", failures, order)
	}
}
