package locktest

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

// suite is what the cases of a test share.
type suite struct {
	// quiet is locked while a JVM starts, and shared while a wake-up is measured:
	// a start takes all that a small machine has.
	quiet sync.RWMutex

	mu   sync.Mutex
	warm map[*peer.Process]*sync.Once
}

// jvm starts a JVM of the case's own.
func (s *suite) jvm(b *redisson.Bench, change func(*redisson.Settings)) *peer.Process {
	s.quiet.Lock()
	defer s.quiet.Unlock()
	return b.JVM(change)
}

// watchdog starts a JVM with that lockWatchdogTimeout.
func (s *suite) watchdog(b *redisson.Bench, timeout time.Duration) *peer.Process {
	return s.jvm(b, func(o *redisson.Settings) { o.LockWatchdogTimeout = timeout.Milliseconds() })
}

// wakeUps measures how soon waiters have what is given back.
type wakeUps struct {
	t     *testing.T
	suite *suite
	worst time.Duration
}

// wakeUps measures those between Go and a JVM.
func (s *suite) wakeUps(t *testing.T, jvm *peer.Process) *wakeUps {
	s.warmUp(t, jvm)
	return &wakeUps{t: t, suite: s}
}

// warmUp has two threads of a JVM hand a lock over, once: a JVM loads and compiles
// what it does for the first time, and is no measure then.
func (s *suite) warmUp(t *testing.T, jvm *peer.Process) {
	t.Helper()
	s.mu.Lock()
	once := s.warm[jvm]
	if once == nil {
		once = new(sync.Once)
		if s.warm == nil {
			s.warm = make(map[*peer.Process]*sync.Once)
		}
		s.warm[jvm] = once
	}
	s.mu.Unlock()
	once.Do(func() {
		name := t.Name() + ":warm"
		a, b := thread{t, jvm, "lock", "warm-a", name}, thread{t, jvm, "lock", "warm-b", name}
		for range 3 {
			a.lock(0)
			q := b.begin("lock", 0, 0)
			time.Sleep(50 * time.Millisecond) // for it to wait
			a.unlock()
			q.got()
			b.unlock()
		}
	})
}

// measure wants who to have the lock soon after the call of release.
func (w *wakeUps) measure(who string, release func(), got func() time.Time) {
	w.t.Helper()
	w.suite.quiet.RLock()
	defer w.suite.quiet.RUnlock()
	released := time.Now()
	release()
	took := got().Sub(released)
	if took > redisson.WakeLimit {
		w.t.Errorf("%s had the lock %v after the unlock was called, want %v at most", who, took, redisson.WakeLimit)
	}
	w.worst = max(w.worst, took)
}

// report tells the slowest of them.
func (w *wakeUps) report() {
	w.t.Helper()
	w.t.Attr("wake-up", w.worst.Round(100*time.Microsecond).String())
}
