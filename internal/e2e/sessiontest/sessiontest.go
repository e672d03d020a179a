// Package sessiontest is what locks of any store with sessions survive: waiters that give
// up, and holds that are ended by force. Package storestest runs it over a real server of each.
// Servers that restart or stand still, and programs that die, are in package matrix.
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
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Timeout is how long a test waits for what is sure to come.
const Timeout = 30 * time.Second

// Store is a store with sessions, with a server that all tests share.
type Store struct {
	At   string        // what the Open of RunProgram gets
	TTL  time.Duration // of the sessions
	Late time.Duration // how much later the server may end one

	// Open returns a client, with sessions of ttl, which is closed when t ends.
	Open func(t *testing.T, ttl time.Duration) Backend
	// Left returns how many entries the common server keeps for a name.
	Left func(t *testing.T, name string) int
}

// Backend is a Backend whose holds can be seen, and ended by force.
type Backend interface {
	driver.Backend
	admin.Source
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

// ForceUnlockIsNotified ends a hold by force while the next renewal is far away: a holder
// whose lock is older than two seconds learns at once that its hold was ended, and why. A
// waiter goes on.
func (s Store) ForceUnlockIsNotified(t *testing.T) {
	c := admin.New(s.Open(t, s.TTL))
	lock := must.Lock(t, LockerOf(t, s.Open(t, time.Minute)), name(t))
	next := make(chan *holdfast.Lock, 1)
	other := s.locker(t)
	go func() { next <- must.Lock(t, other, name(t)) }()
	await.Until(t, Timeout, "one waits", func() bool { return s.Left(t, name(t)) == 2 })
	await.Never(t, 3*time.Second, "the lock is lost before it listens", func() bool { return lock.Err() != nil })
	records, err := c.Get(within(t), name(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ForceUnlock(within(t), name(t), records[0].Holds[0].Holder, "the runner is gone"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lock.Context(t.Context()).Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the holder was not notified within 5 s")
	}
	var lost *holdfast.LostError
	if err := lock.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonForced || !strings.Contains(err.Error(), "the runner is gone") {
		t.Errorf("got error %v, want that it was forced, and why", err)
	}
	must.Unlock(t, <-next)
}

// WaitersGiveUp has waiters give up at random moments, as early as on their way into the queue. Nobody
// holds beside another, nobody who is gone is waited for, and nothing is left.
func (s Store) WaitersGiveUp(t *testing.T) {
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
