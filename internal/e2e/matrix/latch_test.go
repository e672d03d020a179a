package matrix

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
)

// Count-down latches, which nobody holds.

// set sets the scenario's latch.
func (c *client) set(n int64) {
	c.Helper()
	if ok, err := c.locker.CountDownLatch(c.name).TrySet(c.bounded(), n); err != nil || !ok {
		c.Fatalf("Set: %v, %v", ok, err)
	}
}

// done counts it down.
func (c *client) done() {
	c.Helper()
	if err := c.locker.CountDownLatch(c.name).CountDown(c.bounded()); err != nil {
		c.Fatalf("Done: %v", err)
	}
}

// wantCount fails unless the latch is at n.
func (c *client) wantCount(n int64) {
	c.Helper()
	got, err := c.locker.CountDownLatch(c.name).Count(c.bounded())
	if err != nil || got != n {
		c.Errorf("count: got %d, %v, want %d", got, err, n)
	}
}

// opened waits for the latch in the background and returns when it went on.
func (c *client) opened() <-chan time.Time {
	at := make(chan time.Time, 1)
	ctx := c.bounded()
	go func() {
		defer close(at)
		if err := c.locker.CountDownLatch(c.name).Wait(ctx); err == nil {
			at <- time.Now()
		}
	}()
	return at
}

// latchLostReplies: each call counts once.
func latchLostReplies(s *scenario) {
	c := s.client()
	lost := c.on(s.script("latch_set"), faultproxy.CutAfterExecution)
	c.set(3)
	s.wait(lost, 1)
	c.wantCount(3)
	for left := int64(2); left >= 0; left-- {
		lost = c.on(s.script("latch_down"), faultproxy.CutAfterExecution)
		c.done()
		s.wait(lost, 1)
		c.wantCount(left)
	}
}

// latchDeafWaiter: it hears nothing, and asks.
func latchDeafWaiter(s *scenario) {
	c, o := s.client(), s.client()
	deaf := c.on(faultproxy.Command("SUBSCRIBE", "SSUBSCRIBE"), faultproxy.HoldReply, faultproxy.Always())
	o.set(1)
	at := c.opened()
	s.wait(deaf, 1)
	o.done()
	began := time.Now()
	took := (<-at).Sub(began)
	s.within("Wait went on", took, time.Second+call) // a sleep, and a call
	s.waited(took, wakeUp)
	deaf.release()
}

// latchFullServer: it cannot be set, and can be counted down.
func latchFullServer(s *scenario) {
	c := s.client()
	c.set(2)
	full(s, true)
	name := s.name
	s.name += "-new"
	if _, err := c.locker.CountDownLatch(s.name).TrySet(s.bounded(), 1); !errors.Is(err, driver.ErrRefused) {
		s.Errorf("Set: got %v, want ErrRefused", err)
	} else {
		s.history.note('E')
	}
	s.wantGone(0)
	s.name = name
	full(s, false)
	c.done()
	c.done()
	c.wantCount(0)
}

// latchLostWrite: the count jumps back, so that it opens late and never early.
func latchLostWrite(s *scenario) {
	c, o := s.client(), s.other()
	c.set(2)
	s.replicated()
	s.together(func() { s.cutReplication() })
	at := c.opened()
	c.done()
	c.wantCount(1)
	s.together(s.killMaster)
	o.wantCount(2)
	o.done()
	done := time.Now() // all were, and one is forgotten
	select {
	case <-at:
		s.Error("the latch opened although the count is 1")
	case <-time.After(1200 * time.Millisecond):
	}
	o.done()
	opened, ok := <-at
	if !ok || opened.IsZero() {
		s.Error("Wait did not go on")
	}
	s.waited(opened.Sub(done), time.Second)
}
