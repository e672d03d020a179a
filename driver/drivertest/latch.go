package drivertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// call returns the ID of a call on a latch. Calls with the same text `what` have the same ID.
func (p *probe) call(what string) string { return p.Client + ":" + what }

func (p *probe) mustSet(call string, n int64, want bool, when string) {
	p.Helper()
	got, err := p.b.(driver.Latcher).SetCount(p.Ctx, p.Name, p.call(call), n)
	if err != nil || got != want {
		p.Fatalf("SetCount %s: got %v, %v, want %v", when, got, err, want)
	}
}

func (p *probe) mustCountDown(call, when string) {
	p.Helper()
	if err := p.b.(driver.Latcher).CountDown(p.Ctx, p.Name, p.call(call)); err != nil {
		p.Fatalf("CountDown %s: got error %v, want nil", when, err)
	}
}

func (p *probe) mustBeAt(want int64, when string) {
	p.Helper()
	got, err := p.b.(driver.Latcher).Count(p.Ctx, p.Name)
	if err != nil || got != want {
		p.Fatalf("Count %s: got %d, %v, want %d", when, got, err, want)
	}
}

// openLatch counts down n times, each time with another call ID. The latch must then be open.
func (p *probe) openLatch(n int) {
	p.Helper()
	for range n {
		p.mustCountDown(fmt.Sprint("open:", p.Claim().Seq), "of a latch")
	}
	p.mustBeAt(0, "of a latch that was counted down")
}

func latchIsSetOnce(p *probe) {
	p.mustBeAt(0, "of a latch that was never set")
	p.mustSet("first", 3, true, "of a free name")
	p.mustBeAt(3, "after SetCount")
	p.mustSet("first", 3, true, "repeated with the same call ID")
	p.mustSet("second", 5, false, "of a latch that is counting")
	p.mustSet("second", 5, false, "of a latch that is counting, repeated")
	p.mustBeAt(3, "after a second SetCount, which must change nothing")
	p.openLatch(3)
	p.mustSet("second", 5, false, "repeated with the same call ID, after the latch has opened")
	p.mustSet("first", 3, true, "repeated with the same call ID, after the latch has opened")
	p.mustBeAt(0, "after calls were repeated")
}

func latchCountsEachCallOnce(p *probe) {
	p.mustSet("set", 3, true, "of a free name")
	for range 3 {
		p.mustCountDown("a", "with the first call")
		p.mustBeAt(2, "after one call")
	}
	p.mustCountDown("b", "with another call")
	p.mustCountDown("a", "with the first call, repeated after another call")
	p.mustBeAt(1, "after two calls")
	p.mustCountDown("c", "with a third call")
	p.mustBeAt(0, "after three calls")
}

func latchStaysOpen(p *probe) {
	p.mustCountDown("early", "of a latch that was never set")
	p.mustBeAt(0, "after CountDown of a latch that was never set")
	p.mustSet("set", 1, true, "after CountDown of a latch that was never set")
	p.mustBeAt(1, "after SetCount")
	p.openLatch(1)
	p.mustCountDown("late", "of an open latch")
	p.mustBeAt(0, "after CountDown of an open latch")
}

func latchCanBeSetAfterItOpened(p *probe) {
	p.mustSet("set", 2, true, "of a free name")
	p.mustCountDown("a", "of a latch")
	p.mustCountDown("b", "of a latch")
	p.mustSet("again", 2, true, "of an open latch")
	p.mustBeAt(2, "after an open latch was set")
	p.mustCountDown("b", "with the call that had opened the latch")
	p.mustBeAt(2, "after an earlier call was repeated")
	p.openLatch(2)
}

// awaitLatch waits as the core does: it calls Count again after each Wait. The pause lets a fake
// clock advance if Wait always returns at once.
func (p *probe) awaitLatch(w driver.Waiter) error {
	for {
		n, err := p.b.(driver.Latcher).Count(p.Ctx, p.Name)
		if err != nil || n == 0 {
			return err
		}
		if err := p.wait(w, driver.Outcome{}); err != nil {
			return err
		}
		pause(p.Ctx, time.Millisecond)
	}
}

func latchWakesWhenItOpens(p *probe) {
	// With these delays, the latch opens before the waiters call Wait, just after that, or later.
	for i, delay := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		p.mustSet(fmt.Sprint("set:", i), 2, true, "of an open latch")
		var wg sync.WaitGroup
		for range 2 {
			w := p.b.(driver.Latcher).LatchWaiter(p.Name)
			defer w.Close()
			wg.Go(func() {
				if err := p.awaitLatch(w); err != nil {
					p.Errorf("waiting for a latch that opens after %v: %v", delay, err)
				}
			})
		}
		pause(p.Ctx, delay)
		p.openLatch(2)
		wg.Wait()
	}
}

// latchWaiterMissesNothing opens the latch after a call of Count and before the next Wait. This
// Wait is the first, the second or the third call of Wait on the Waiter.
func latchWaiterMissesNothing(p *probe) {
	for waits := range 3 {
		p.mustSet(fmt.Sprint("set:", waits), 1, true, "of an open latch")
		w := p.b.(driver.Latcher).LatchWaiter(p.Name)
		defer w.Close()
		if waits > 0 {
			if err := p.wait(w, driver.Outcome{}); err != nil {
				p.Fatalf("first Wait, which returns early: %v", err)
			}
		}
		if waits > 1 { // this Wait ends only when its context ends
			ctx, cancel := context.WithTimeout(p.Ctx, 20*time.Millisecond)
			woken(ctx, w)
			cancel()
		}
		p.mustBeAt(1, "before the latch opens")
		p.openLatch(1)
		if err := p.wait(w, driver.Outcome{}); err != nil {
			p.Fatalf("Wait after the latch has opened: %v", err)
		}
	}
}

func latchWaiterDoesNotSpin(p *probe) {
	p.mustSet("set", 1, true, "of a free name")
	p.mustNotSpin(p.b.(driver.Latcher).LatchWaiter(p.Name), func() driver.Outcome { return driver.Outcome{} })
	p.openLatch(1)
}

func latchHonoursContext(p *probe) {
	l := p.b.(driver.Latcher)
	p.mustSet("set", 1, true, "of a free name")
	l.LatchWaiter(p.Name).Close() // before any Wait: there is nothing to close
	w := l.LatchWaiter(p.Name)
	defer w.Close()
	p.promptly("calls on a latch with a cancelled context", func() {
		_, err := l.SetCount(p.Cancelled(), p.Name, p.call("cancelled set"), 1)
		p.MustBeCancelled(err, "SetCount with a cancelled context")
		_, err = l.Count(p.Cancelled(), p.Name)
		p.MustBeCancelled(err, "Count with a cancelled context")
		_, err = w.Wait(p.Cancelled(), driver.Outcome{})
		p.MustBeCancelled(err, "Wait with a cancelled context")
	})
	p.promptly("Wait with a context that ends", func() {
		ctx, cancel := context.WithTimeout(p.Ctx, 50*time.Millisecond)
		defer cancel()
		for n := 0; n < 100 && woken(ctx, w); n++ {
			continue // Wait may return early
		}
	})
	p.openLatch(1)
}

// woken reports whether a Waiter of a latch returned before ctx ended.
func woken(ctx context.Context, w driver.Waiter) bool {
	_, err := w.Wait(ctx, driver.Outcome{})
	return err == nil
}
