package plaintest

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// peerDies: when the library's holder is gone Holdfast gets the lock as soon as
// the lease is over, and no sooner.
func peerDies(s *scenario) {
	const lease = 1500 * time.Millisecond
	doomed := *s
	doomed.client = s.start(s.T, s.server.URL())
	sent := time.Now()
	doomed.peerLocks(lease)
	locked := time.Now()
	doomed.client.Kill()

	lock := s.lock(s.locker(setting{}))
	s.wantBetween(time.Now(), sent.Add(lease), locked.Add(lease+slack))
	s.unlock(lock)
}

// holdfastDies: a Holdfast that is cut off knows that it lost the lock before
// the library gets it, as soon as the lease is over.
func holdfastDies(s *scenario) {
	const ttl = 2 * time.Second
	mesh := faultproxy.StartMesh(s, []string{s.server.Addr()})
	lock := s.lock(s.locker(setting{ttl: ttl, routes: mesh.Routes()}))
	held := lock.Context(s.Context())
	answer := s.tell(peer.Command{Op: "lock", Wait: 10000, Lease: long.Milliseconds()})
	s.wantNone(answer, ttl) // it is renewed
	mesh.Blackhole(true)
	cut := time.Now()

	r := s.answer(answer, 20*time.Second)
	if held.Err() == nil {
		s.Errorf("%s has the lock, and Holdfast still believes to hold it", s.library)
	}
	if !r.Bool() {
		s.Fatalf("%s: got %s and %v, want the lock", s.library, r.Value, r.Err())
	}
	s.wantBetween(r.Received, cut, cut.Add(ttl+slack))
	value := s.value()
	if lost := s.wantLost(context.Cause(held)); lost.Reason != driver.ReasonUnreachable {
		s.Errorf("got reason %s, want %s", lost.Reason, driver.ReasonUnreachable)
	}
	mesh.Blackhole(false)
	s.wantLost(lock.Unlock())
	s.wantUntouched(value, long/2, long)
	s.peerUnlocks()
}

// strangerReleases: a release with a value that is not the lock's does nothing.
func strangerReleases(s *scenario) {
	if !s.strangers {
		s.Skipf("%s cannot make a lock that was not obtained; PeerIsLate has an old one", s.library)
	}
	lock := s.lock(s.locker(setting{}))
	value := s.value()
	s.wantThrown(peer.Command{Op: "stranger"})
	s.wantUntouched(value, 15*time.Second, 30*time.Second)
	if err := lock.Err(); err != nil {
		s.Errorf("Err while held: got %v", err)
	}
	s.unlock(lock)
}

// peerIsLate: a holder of the library whose lease is over can neither release
// nor extend the lock that Holdfast took since.
func peerIsLate(s *scenario) {
	const lease = time.Second
	sent := time.Now()
	s.peerLocks(lease)
	lock := s.lock(s.locker(setting{}))
	s.wantBetween(time.Now(), sent.Add(lease), time.Now())
	value := s.value()
	s.wantPeerHolds(false)
	s.wantThrown(peer.Command{Op: "extend", Lease: 100})
	s.wantUntouched(value, 15*time.Second, 30*time.Second)
	s.wantThrown(peer.Command{Op: "unlock"})
	s.wantUntouched(value, 15*time.Second, 30*time.Second)
	s.unlock(lock)
}

// holdfastIsLate: a lock of Holdfast that is not renewed ends with its lease, and
// its Unlock leaves alone what the library took since.
func holdfastIsLate(s *scenario) {
	const lease = time.Second
	sent := time.Now()
	lock := s.lock(s.locker(setting{}), holdfast.FixedLease(lease))
	locked := time.Now()
	r := s.try(peer.Command{Op: "lock", Wait: 10000, Lease: long.Milliseconds()})
	if !r.Bool() {
		s.Fatalf("%s: got %s and %v, want the lock", s.library, r.Value, r.Err())
	}
	s.wantBetween(r.Received, sent.Add(lease), locked.Add(lease+slack))
	value := s.value()
	s.wantLost(lock.Unlock())
	s.wantUntouched(value, 15*time.Second, long)
	s.wantPeerHolds(true)
	s.peerUnlocks()
}

// holdfastKeyDeleted: Holdfast learns at its next renewal that its key is gone.
func holdfastKeyDeleted(s *scenario) {
	const ttl = 2 * time.Second
	lock := s.lock(s.locker(setting{ttl: ttl}))
	held := lock.Context(s.Context())
	s.server.Int("DEL", s.name)
	s.wantLostSoon(held, ttl, driver.ReasonDeleted)
	s.wantLost(lock.Unlock())
}

// holdfastKeyTaken: the same, and the library has it already.
func holdfastKeyTaken(s *scenario) {
	const ttl = 6 * time.Second // the library has it before the first renewal
	lock := s.lock(s.locker(setting{ttl: ttl}))
	held := lock.Context(s.Context())
	s.server.Int("DEL", s.name)
	s.peerLocks(long)
	value := s.value()
	s.wantLostSoon(held, ttl, driver.ReasonNotOwner)
	s.wantLost(lock.Unlock())
	s.wantUntouched(value, 15*time.Second, long)
	s.peerUnlocks()
}

// holdfastUnlocksTaken: an Unlock that comes before Holdfast knows that the
// library has the lock leaves it alone, and says so.
func holdfastUnlocksTaken(s *scenario) {
	lock := s.lock(s.locker(setting{}))
	s.server.Int("DEL", s.name)
	s.peerLocks(long)
	value := s.value()
	if lost := s.wantLost(lock.Unlock()); lost.Reason != driver.ReasonNotOwner {
		s.Errorf("got reason %s, want %s", lost.Reason, driver.ReasonNotOwner)
	}
	s.wantUntouched(value, 15*time.Second, long)
	s.peerUnlocks()
}

// wantLostSoon waits for the next renewal, which finds that the lock is lost.
func (s *scenario) wantLostSoon(held context.Context, ttl time.Duration, why driver.Reason) {
	s.Helper()
	began := time.Now()
	select {
	case <-held.Done():
	case <-time.After(ttl/3 + slack):
		s.Fatalf("still held %v after the key was deleted", time.Since(began))
	}
	if lost := s.wantLost(context.Cause(held)); lost.Reason != why {
		s.Errorf("got reason %s, want %s", lost.Reason, why)
	}
}

// peerKeyDeleted: when the library's key is deleted Holdfast gets the lock, and
// the library's release leaves it alone.
func peerKeyDeleted(s *scenario) {
	s.peerLocks(long)
	got := s.waiting(s.locker(setting{}))
	deleted := time.Now()
	s.server.Int("DEL", s.name)
	lock := s.granted(got)
	s.wantBetween(time.Now(), deleted, deleted.Add(askedEvery+slack))
	value := s.value()
	s.wantThrown(peer.Command{Op: "unlock"})
	s.wantUntouched(value, 15*time.Second, 30*time.Second)
	s.unlock(lock)
}

// holdfastBreaksPeer: Get shows the library's hold, and Break ends it and
// wakes Holdfast's waiters at once. On a busy machine a message may take as long as
// the next look, but not each time.
func holdfastBreaksPeer(s *scenario) {
	var took []time.Duration
	for range 3 {
		d := s.breaksPeer()
		if d <= woken {
			return
		}
		took = append(took, d)
	}
	s.Errorf("waiters got the lock %v after Break, want at most %v once", took, woken)
}

// breaksPeer returns how long after a forced unlock a waiter had the lock.
func (s *scenario) breaksPeer() time.Duration {
	s.peerLocks(long)
	store := s.store(setting{})
	holders, err := dial.Holders(s.within(long), store, s.name)
	if err != nil || len(holders) != 1 || holders[0].Owner != s.value() {
		s.Fatalf("Get: got %+v and error %v, want one holder, %q", holders, err, s.value())
	}
	got := s.waiting(s.locker(setting{}))
	broken := time.Now()
	if err := store.ForceUnlock(s.within(long), s.name, holders[0], "its program hangs"); err != nil {
		s.Fatalf("ForceUnlock: %v", err)
	}
	lock := s.granted(got)
	took := time.Since(broken)
	s.wantThrown(peer.Command{Op: "unlock"})
	s.unlock(lock)
	return took
}
