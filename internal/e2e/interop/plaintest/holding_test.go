package plaintest

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// peerHolds: what the library holds, Holdfast does not get before it is released.
func peerHolds(s *scenario) {
	locker := s.locker(setting{})
	s.peerLocks(long)
	s.wantPeerHolds(true)
	value := s.value()
	if !s.foreign.value.MatchString(value) {
		s.Errorf("value: got %q, want %v", value, s.foreign.value)
	}

	busy := s.wantBusy(locker.TryLock(s.within(long), s.name))
	if busy.Name != s.name || busy.Holder != value || busy.Remaining <= long-5*time.Second || busy.Remaining > long {
		s.Errorf("got %+v, want %q held by %q for %v", busy, s.name, value, long)
	}
	const wait = 150 * time.Millisecond
	began := time.Now()
	s.wantBusy(locker.TryLock(s.within(long), s.name, holdfast.Wait(wait)))
	if took := time.Since(began); took < wait || took > wait+slack {
		s.Errorf("TryLock with a wait of %v took %v", wait, took)
	}

	got := s.waiting(locker)
	released := time.Now()
	s.peerUnlocks()
	lock := s.granted(got)
	s.wantBetween(time.Now(), released, released.Add(askedEvery+slack))
	if lock.Token() == 0 || s.value() == value || s.value() == "" {
		s.Errorf("got token %d and value %q, want Holdfast's own", lock.Token(), s.value())
	}
	s.wantPeerHolds(false)
	s.unlock(lock)
	if s.value() != "" {
		s.Errorf("after Unlock: got value %q, want none", s.value())
	}
}

// granted returns the lock that s.waiting waits for.
func (s *scenario) granted(got <-chan *holdfast.Lock) *holdfast.Lock {
	s.Helper()
	lock := <-got
	if lock == nil {
		s.FailNow() // the goroutine has said why
	}
	return lock
}

// holdfastHolds: what Holdfast holds, the library does not get before Unlock.
func holdfastHolds(s *scenario) {
	lock := s.lock(s.locker(setting{}))
	if s.do(peer.Command{Op: "tryLock", Lease: 5000}) || s.do(peer.Command{Op: "lock", Wait: 150, Lease: 5000}) {
		s.Fatalf("%s got a lock that Holdfast holds", s.library)
	}
	s.wantPeerHolds(false)
	answer := s.tell(peer.Command{Op: "lock", Wait: 20000, Lease: 5000})
	s.wantNone(answer, 200*time.Millisecond)
	if err := lock.Err(); err != nil {
		s.Errorf("Err while held: got %v", err)
	}
	released := time.Now()
	s.unlock(lock)
	r := s.answer(answer, 20*time.Second)
	if !r.Bool() {
		s.Fatalf("%s waited for the lock: got %s and %v", s.library, r.Value, r.Err())
	}
	s.wantBetween(r.Received, released, released.Add(slack)) // it asks every 5 ms
	s.wantPeerHolds(true)
	s.peerUnlocks()
}

// holdfastKeeps: a name that Holdfast unlocks before its AtLeast has passed stays taken for
// the library until then.
func holdfastKeeps(s *scenario) {
	const least = 2 * time.Second
	locker := s.locker(setting{})
	began := time.Now()
	lock := s.lock(locker, holdfast.AtLeast(least))
	granted := time.Now()
	answer := s.tell(peer.Command{Op: "lock", Wait: 20000, Lease: 20000})
	s.unlock(lock)
	if s.do(peer.Command{Thread: "other", Op: "tryLock", Lease: 20000}) {
		s.Errorf("%s got a lock that Holdfast keeps", s.library)
	}
	r := s.answer(answer, 20*time.Second)
	if !r.Bool() {
		s.Fatalf("%s waited for the lock: got %s and %v", s.library, r.Value, r.Err())
	}
	s.wantBetween(r.Received, began.Add(least), granted.Add(least+slack))
	s.wantPeerHolds(true)
	s.peerUnlocks()
}

// wantNone fails the test if an answer comes within d.
func (s *scenario) wantNone(answer <-chan peer.Reply, d time.Duration) {
	s.Helper()
	select {
	case r := <-answer:
		s.Fatalf("%s: got the answer %s and %v, want none within %v", s.library, r.Value, r.Err(), d)
	case <-time.After(d):
	}
}

// peerExtends: an extension by the library keeps Holdfast out.
func peerExtends(s *scenario) {
	const lease = 2 * time.Second
	locker := s.locker(setting{})
	s.peerLocks(lease)
	value := s.value()
	busy := make(chan error, 1)
	ctx := s.within(long)
	go func() {
		_, err := locker.TryLock(ctx, s.name, holdfast.Wait(2*lease))
		busy <- err
	}()
	every := time.NewTicker(lease / 4)
	defer every.Stop()
	for waiting := true; waiting; {
		select {
		case <-every.C:
			s.must(peer.Command{Op: "extend", Lease: lease.Milliseconds()})
			s.wantUntouched(value, 1, lease)
		case err := <-busy:
			s.wantBusy(nil, err)
			waiting = false
		}
	}
	s.peerUnlocks()
	s.unlock(s.lock(locker))
}

// holdfastRenews: Holdfast's renewals keep the library out.
func holdfastRenews(s *scenario) {
	const ttl = 2 * time.Second
	lock := s.lock(s.locker(setting{ttl: ttl}))
	value := s.value()
	if s.do(peer.Command{Op: "lock", Wait: 2 * ttl.Milliseconds(), Lease: 5000}) {
		s.Fatalf("%s got a lock that Holdfast renews", s.library)
	}
	s.wantUntouched(value, 1, ttl)
	s.unlock(lock)
	s.peerLocks(long)
	s.peerUnlocks()
}
