// Package lossytest has clients contend for a lock while answers of its store are lost,
// whatever the store is. The tests of each store run it over a real server.
package lossytest

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

const (
	clients    = 4
	goroutines = 2   // of a client
	passes     = 200 // locks taken, at least
	losses     = 100 // answers lost, at least
	renewals   = 3   // without an answer, at least
	limit      = 2 * time.Minute
)

// Store is a store whose clients lose a fifth of the answers.
type Store struct {
	TTL   time.Duration
	Late  time.Duration // how much later than a TTL the server may end a hold
	Plain bool          // there are no tokens
	// Mutex is how a goroutine gets the lock: (*holdfast.Locker).Mutex, or FairMutex.
	Mutex func(l *holdfast.Locker, name string) *holdfast.Mutex

	// Open returns such a client, which is closed when t ends. Of a store with sessions
	// theirs have the TTL.
	Open func(t *testing.T) driver.Backend
	// Lost returns how many answers were lost so far.
	Lost func() int
	// Heal ends the losses.
	Heal func()
	// Left returns how many entries the server keeps for a name. It may be nil.
	Left func(t *testing.T, name string) int
}

// Run has clients contend for a lock. Some hold it for longer than until a renewal, and some
// give up early. One holds at a time, tokens rise, and nothing is left that keeps the name
// taken.
func (s Store) Run(t *testing.T) {
	name := strings.ReplaceAll(t.Name(), "/", "-")
	c := &crew{Store: s, t: t, failed: make(chan struct{})}
	lockers := c.lockers()
	ctx, cancel := context.WithCancel(t.Context())
	var wg, long sync.WaitGroup
	stop := func() {
		cancel()
		wg.Wait()
	}
	defer stop()
	for _, l := range lockers {
		for g := range goroutines {
			first := func() {}
			if g == 0 {
				long.Add(1)
				first = sync.OnceFunc(long.Done)
			}
			wg.Go(func() { c.contend(ctx, s.Mutex(l, name), g == 0, first) })
		}
	}
	long.Wait()
	began := time.Now()
	await.Until(t, limit, "enough is lost", func() bool { return s.Lost() >= losses && c.passed.Load() >= passes })
	t.Logf("%d answers were lost, those of %d renewals of held locks among them; %d locks were taken and %d lost; it took %v after the long ones",
		s.Lost(), c.unanswered.Load(), c.passed.Load(), c.lost.Load(), time.Since(began).Round(time.Millisecond))
	stop()
	s.Heal()
	if n := c.unanswered.Load(); n < renewals {
		t.Errorf("%d renewals had no answer: nothing is tested", n)
	}
	c.free(lockers, name)
}

// free fails t unless the name is free within a TTL.
func (c *crew) free(lockers []*holdfast.Locker, name string) {
	c.t.Helper()
	most := c.TTL + c.Late + 2*time.Second
	lock, err := lockers[0].Lock(await.Context(c.t, most), name)
	if err != nil {
		c.t.Fatalf("after the losses the name stays taken: %v", err)
	}
	must.Unlock(c.t, lock)
	for _, l := range lockers {
		must.Drain(c.t, l)
	}
	if c.Left != nil {
		await.Until(c.t, most, "nothing is left", func() bool { return c.Left(c.t, name) == 0 })
	}
}

// crew is the clients, and what the lock protects.
type crew struct {
	Store
	t *testing.T

	inside       atomic.Int32
	token        atomic.Uint64
	passed, lost atomic.Int64

	unanswered atomic.Int64  // renewals
	failed     chan struct{} // closed when there are enough of those
}

func (c *crew) lockers() []*holdfast.Locker {
	var all []*holdfast.Locker
	for i := range clients {
		opts := &holdfast.Options{TTL: c.TTL, Observe: c.observe}
		if i > 0 {
			opts.Handoff.Max = -1 // else most never reach the store
		}
		all = append(all, holdfast.New(c.Open(c.t), opts))
	}
	return all
}

// observe counts the renewals of held locks that had no answer, and losses.
func (c *crew) observe(_ context.Context, e holdfast.Event) {
	switch {
	case e.Type == holdfast.EventLoss:
		c.lost.Add(1)
	case e.Type == holdfast.EventRenew && e.Err != nil && !errors.Is(e.Err, driver.ErrGone):
		if c.unanswered.Add(1) == renewals {
			close(c.failed)
		}
	}
}

// contend locks and unlocks until ctx ends, and gives up one time in ten after a moment.
// With long it holds its first lock until renewals had no answer. first is called after
// that lock.
func (c *crew) contend(ctx context.Context, m *holdfast.Mutex, long bool, first func()) {
	defer first()
	for ctx.Err() == nil {
		wait := limit
		if rand.IntN(10) == 0 {
			wait = rand.N(3 * time.Millisecond)
		}
		bound, cancel := context.WithTimeout(ctx, wait)
		lock, err := m.Lock(bound)
		cancel()
		switch {
		case err == nil:
			c.pass(lock, long)
			long = false
			first()
		case wait == limit && ctx.Err() == nil:
			c.t.Errorf("Lock: %v", err)
			return
		}
	}
}

// pass is what is done with the lock held.
func (c *crew) pass(lock *holdfast.Lock, long bool) {
	if n := c.inside.Add(1); n != 1 {
		c.t.Errorf("%d holders", n)
	}
	if last := c.token.Swap(lock.Token()); !c.Plain && lock.Token() <= last {
		c.t.Errorf("token %d after %d", lock.Token(), last)
	}
	if long {
		c.hold(lock)
	}
	c.passed.Add(1)
	c.inside.Add(-1)
	if err := lock.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
		c.t.Errorf("Unlock: %v", err)
	}
}

// hold returns when the answers of enough renewals were lost, or with the lock.
func (c *crew) hold(lock *holdfast.Lock) {
	bound := time.NewTimer(3 * c.TTL)
	defer bound.Stop()
	select {
	case <-c.failed:
	case <-lock.Context(c.t.Context()).Done():
	case <-bound.C:
	}
}
