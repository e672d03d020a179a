package matrix

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
)

// Faults between a client and its servers.

// lostReplyOfAcquire: the script ran, no client got the answer.
func lostReplyOfAcquire(s *scenario) {
	c := s.client()
	lost := c.on(s.script(s.scripts().Acquire), faultproxy.CutAfterExecution)
	k := c.take()
	s.wait(lost, 1)
	s.wantHeld()
	k.mustUnlock()
}

// lostReplies: those of an acquire and of an unlock.
func lostReplies(s *scenario) {
	c := s.client()
	sc := s.scripts()
	lost := c.on(s.script(sc.Acquire), faultproxy.CutAfterExecution)
	k := c.take()
	s.wait(lost, 1)
	s.wantHeld()
	if s.kind == reentrant { // its first Unlock lowers the count
		lost = c.on(s.script(sc.Renew), faultproxy.CutAfterExecution)
		k.mustUnlock()
		s.wait(lost, 1)
		k = c.take()
	}
	ended := []string{sc.Release}
	if sc.Abandon != "" {
		ended = append(ended, sc.Abandon)
	}
	lost = c.on(s.script(ended...), faultproxy.CutAfterExecution)
	k.mustUnlock()
	s.wait(lost, 1)
	next := s.other().take()
	s.wantHeld()
	next.mustUnlock()
}

// heldReplyOfAcquire: the reply comes after the client has given up on it.
func heldReplyOfAcquire(s *scenario) {
	c := s.client()
	held := c.on(s.script("acquire"), faultproxy.HoldReply)
	k := c.take()
	s.wait(held, 1)
	s.wantHeld()
	held.release()
	k.stays(s.ttl / 2)
	s.wantHeld()
	k.mustUnlock()
}

// lateAcquire: the request arrives after the tombstone of its claim is set.
func lateAcquire(s *scenario) {
	c := s.client()
	late := c.on(s.script("acquire"), func() faultproxy.Action { return faultproxy.DelayRequest(0) }, faultproxy.Always())
	_, err := c.try(s.lasting(100 * time.Millisecond))
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got %v, want the context's error", err)
	}
	s.wait(late, 1)
	c.mesh.HangUpAll() // the clean-up goes over another connection and is first
	keepers := len(s.keepers(s.name))
	if !s.until(3*time.Second, func() bool { return len(s.marks()) >= keepers }) {
		s.Fatal("the claim was not cleaned up")
	}
	late.release()
	// Not all of them were sent before the clients hung up: go-redis sends a pipeline
	// again whose connection was closed.
	if !s.until(patience, func() bool { return late.answered() >= late.count() }) {
		s.Fatalf("of %d late requests %d were answered", late.count(), late.answered())
	}
	s.wantGone(0)
	for _, server := range s.keepers(s.name) {
		for _, key := range s.marks() {
			if ttl := server.Int("PTTL", key); ttl > 31_000 || ttl == -1 {
				s.Errorf("mark %q lives %d ms, want at most one TTL", key, ttl)
			}
		}
	}
}

// lostRequest: the request does not arrive.
func lostRequest(s *scenario) {
	c := s.client()
	lost := c.on(s.script("acquire"), faultproxy.DropRequest)
	k := c.take()
	s.wait(lost, 1)
	s.wantHeld()
	k.mustUnlock()
}

// lostReplyOfUnlock: the lock is free, and the holder does not know.
func lostReplyOfUnlock(s *scenario) {
	c := s.client()
	k := c.take()
	lost := c.on(s.script("release", "abandon"), faultproxy.CutAfterExecution) // the latter after a slow acquire
	k.mustUnlock()
	s.wait(lost, 1)
	s.wantGone(0)
}

// lostReplyOfRenewal: the next one is answered.
func lostReplyOfRenewal(s *scenario) {
	c := s.client()
	k := c.take()
	lost := c.on(s.script("renew"), faultproxy.CutAfterExecution)
	s.wait(lost, 1)
	k.stays(s.ttl)
	s.wantHeld()
	k.mustUnlock()
}

// cancelledAcquire: the caller gives up while the answer is under way.
func cancelledAcquire(s *scenario) {
	c := s.client()
	held := c.on(s.script("acquire"), faultproxy.HoldReply, faultproxy.Always()) // that of a second try too
	ctx, cancel := context.WithCancel(s.Context())
	var cancelled time.Time
	go func() {
		s.until(patience, func() bool { return held.count() > 0 })
		cancelled = time.Now()
		cancel()
	}()
	_, err := c.try(ctx)
	if !errors.Is(err, context.Canceled) {
		s.Errorf("got %v, want the context's error", err)
	}
	s.within("Lock returned after its context", time.Since(cancelled), 50*time.Millisecond)
	held.release()
	s.wantGone(time.Second)
}

// brokenConnections: in the middle of a request, and while the lock is held.
func brokenConnections(s *scenario) {
	c := s.client()
	reset := c.on(s.script("acquire"), faultproxy.ResetMidCommand)
	k := c.take()
	s.wait(reset, 1)
	for range 3 {
		c.mesh.CutAll()
		if s.alone != nil {
			for _, server := range s.servers() {
				server.Do("CLIENT", "KILL", "TYPE", "normal")
			}
		}
		k.stays(s.ttl / 3)
	}
	s.wantHeld()
	k.mustUnlock()
}

// shortOutage: the holder is cut off for half a lease, in silence, and on one server also
// by refused connections.
func shortOutage(s *scenario) {
	c := s.client()
	k := c.take()
	s.outlasts(c, k, func() { c.mesh.Blackhole(true) }, func() { c.mesh.Blackhole(false) })
	if s.on == single {
		before := c.unrenewed.Load()
		s.outlasts(c, k, func() { c.mesh.RefuseNew(); c.mesh.CutAll() }, func() {
			if err := c.mesh.Accept(); err != nil {
				s.Error(err)
			}
		})
		if c.unrenewed.Load() == before {
			s.Error("no renewal met the outage")
		}
	}
	k.mustUnlock()
}

// outlasts wants the lock to outlast a short outage, in which a renewal is due.
func (s *scenario) outlasts(c *client, k *grip, begin, end func()) {
	s.Helper()
	c.renewed(k, 1)
	begin()
	time.Sleep(s.on.outage(s.ttl))
	end()
	k.stays(s.ttl)
}

// longOutage: the holder is cut off for longer than a lease, and another waits.
func longOutage(s *scenario) {
	c, o := s.client(), s.other()
	k := c.take()
	w := o.queue(s.kind)
	c.mesh.Blackhole(true)
	cut := time.Now()
	k.lost(cut, s.ttl) // before the other has it: see the judge
	next := w.served()
	c.mesh.Blackhole(false)
	next.stays(s.ttl / 2) // what the first one sent late does no harm
	next.mustUnlock()
}

// wakeUp is within what a message wakes a waiter.
const wakeUp = 20 * time.Millisecond

// deafWaiter: a waiter that hears nothing.
func deafWaiter(s *scenario) {
	c, o := s.client(), s.other()
	deaf := c.on(faultproxy.Command("SUBSCRIBE", "SSUBSCRIBE"), faultproxy.HoldReply, faultproxy.Always())
	k := o.takeRival()
	w := c.queue(s.kind)
	s.wait(deaf, 1)
	k.mustUnlock()
	freed := time.Now()
	next := w.served()
	s.within("the waiter got the lock", time.Since(freed), time.Second+call) // a sleep, and a call
	s.waited(time.Since(freed), wakeUp)
	deaf.release()
	next.mustUnlock()
}
