// Package sessiontest is what locks of any store with sessions survive: servers that restart
// or stand still, waiters that give up, programs that die. Each store runs it over real
// servers.
package sessiontest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Timeout is how long a test waits for what is sure to come.
const Timeout = 30 * time.Second

// Store is a store with sessions, with a server that all tests share.
type Store struct {
	TTL  time.Duration // of the sessions
	Late time.Duration // how much later the server may end one

	// Open returns a client, with sessions of ttl, which is closed when t ends.
	Open func(t *testing.T, ttl time.Duration) driver.Backend
	// Start starts a server for t alone.
	Start func(t *testing.T) Server
	// Left returns how many entries the common server keeps for a name.
	Left func(t *testing.T, name string) int
}

// Server is a server that a test may end.
type Server interface {
	// Open returns a client, with sessions of ttl, which is closed when t ends.
	Open(t *testing.T, ttl time.Duration) driver.Backend
	// Left returns how many entries the server keeps for a name; negative if it does not
	// answer.
	Left(t *testing.T, name string) int
	Kill()          // ends it at once
	Restart() error // starts it again, with its data
	Pause() error   // stops its process, until Resume
	Resume() error  // lets it go on
}

// Run runs the tests, all at the same time.
func (s Store) Run(t *testing.T) {
	for name, test := range map[string]func(Store, *testing.T){
		"ServerRestarts":    Store.serverRestarts,
		"ServerStandsStill": Store.serverStandsStill,
		"WaitersGiveUp":     Store.waitersGiveUp,
		"ProgramDies":       Store.programDies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s, t)
		})
	}
}

// LockerOf returns a Locker over b, which is drained when t ends.
func LockerOf(t *testing.T, b driver.Backend) *holdfast.Locker {
	t.Helper()
	l := holdfast.New(b, nil)
	t.Cleanup(func() { must.Drain(t, l) })
	return l
}

// within returns a context that ends after Patience.
func within(t *testing.T) context.Context { return await.Context(t, Timeout) }

// name returns the name of a lock for t alone, without a slash.
func name(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", "-") }

func (s Store) locker(t *testing.T) *holdfast.Locker {
	t.Helper()
	return LockerOf(t, s.Open(t, s.TTL))
}

// nothingLeft waits until the server keeps nothing for a name.
func (s Store) nothingLeft(t *testing.T, name string) {
	t.Helper()
	await.Until(t, s.TTL+s.Late, "nothing is left", func() bool { return s.Left(t, name) == 0 })
}

// section is where only one may be, with rising tokens.
type section struct {
	inside atomic.Int32
	token  atomic.Uint64
}

func (s *section) pass(t *testing.T, lock *holdfast.Lock) {
	if n := s.inside.Add(1); n != 1 {
		t.Errorf("%d inside at once", n)
	}
	if last := s.token.Swap(lock.Token()); lock.Token() <= last {
		t.Errorf("token %d after %d", lock.Token(), last)
	}
	s.inside.Add(-1)
}

// A server that is killed and comes back before the session has ended costs no lock, and
// no waiter is forgotten.
func (s Store) serverRestarts(t *testing.T) {
	server, long := s.Start(t), 10*s.TTL
	l, other := LockerOf(t, server.Open(t, long)), LockerOf(t, server.Open(t, long))
	lock := must.Lock(t, l, name(t))
	waited := make(chan *holdfast.Lock, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		waiting, err := other.Lock(within(t), name(t))
		if err != nil {
			t.Error(err)
		}
		waited <- waiting
	})
	await.Until(t, Timeout, "one waits", func() bool { return server.Left(t, name(t)) == 2 })
	server.Kill()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-waited:
		t.Fatal("granted while the name is held")
	case <-time.After(500 * time.Millisecond):
	}
	must.Unlock(t, lock)
	must.Unlock(t, <-waited)
}

// A server that stands still does not answer renewals: the holder is notified before its
// lease can have ended.
func (s Store) serverStandsStill(t *testing.T) {
	server := s.Start(t)
	lock := must.Lock(t, LockerOf(t, server.Open(t, s.TTL)), name(t))
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	<-lock.Context(within(t)).Done()
	if took := time.Since(paused); took > s.TTL {
		t.Errorf("told after %v, want less than the lease of %v", took, s.TTL)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	_ = lock.Unlock()
}

// Waiters give up at random moments, as early as on their way into the queue. Nobody
// holds beside another, nobody who is gone is waited for, and nothing is left.
func (s Store) waitersGiveUp(t *testing.T) {
	const rounds = 40
	var in section
	var gaveUp atomic.Int32
	still := standstill{watch: await.NewWatch(t)}
	var wg sync.WaitGroup
	for range 4 {
		m := s.locker(t).FairMutex(name(t))
		for range 2 {
			wg.Go(func() {
				for range rounds {
					began := time.Now()
					lock, err := lockOrGiveUp(t, m)
					if errors.Is(err, context.DeadlineExceeded) && time.Since(began) < Timeout {
						gaveUp.Add(1)
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					in.pass(t, lock)
					still.ends()
					must.Unlock(t, lock)
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d gave up, the longest time without a grant was %v", gaveUp.Load(), still.longest)
	if gaveUp.Load() == 0 {
		t.Error("nobody gave up")
	}
	if still.longest > s.TTL+time.Second {
		t.Errorf("all waited for %v, so for one who was gone", still.longest)
	}
	s.nothingLeft(t, name(t))
}

// standstill measures the longest time between two grants, net of the time for which this
// process had no processor. A wait alone may be long because many are before it.
type standstill struct {
	watch   *await.Watch
	mu      sync.Mutex
	until   time.Duration // the last grant, since the beginning and net
	longest time.Duration
}

// ends takes note of a grant.
func (s *standstill) ends() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.watch.Began) - s.watch.Late()
	s.longest = max(s.longest, now-s.until)
	s.until = now
}

// lockOrGiveUp gives up soon in one of three times.
func lockOrGiveUp(t *testing.T, m *holdfast.Mutex) (*holdfast.Lock, error) {
	patience := Timeout
	if rand.IntN(3) == 0 {
		patience = rand.N(12 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return m.Lock(ctx)
}

// A program that dies frees its name when its session ends.
func (s Store) programDies(t *testing.T) {
	process := StartHolder(t, Mutex, name(t))
	l := s.locker(t)
	if _, err := l.TryLock(within(t), name(t)); !errors.Is(err, holdfast.ErrBusy) {
		t.Fatalf("TryLock: got error %v, want ErrBusy", err)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	must.Unlock(t, must.Lock(t, l, name(t)))
	took := time.Since(died)
	t.Logf("free after %v", took)
	if most := s.TTL + s.Late + time.Second; took > most {
		t.Errorf("free after %v, want %v at most", took, most)
	}
}
