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

	// tick is how much later than a TTL a server may notice that a lease has ended.
	tick = time.Second
)

// Store is a store whose clients lose a fifth of the answers.
type Store struct {
	TTL   time.Duration
	Late  time.Duration // how much later than a TTL the server may end a hold
	Plain bool          // there are no tokens
	// Permits is how many hold at a time: those of a semaphore, or 0 for a mutex.
	Permits int
	// Mutex is how a goroutine gets a mutex: (*holdfast.Locker).Mutex, or FairMutex.
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
// give up early. One holds at a time, or as many as there are permits; the tokens of a mutex
// rise; and a TTL later nothing is left that keeps the name taken.
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
			wg.Go(func() { c.contend(ctx, c.taker(l, name), g == 0, first) })
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

// free fails t unless all of the name is free within a TTL, and one tick of the server.
func (c *crew) free(lockers []*holdfast.Locker, name string) {
	c.t.Helper()
	end := time.Now().Add(c.TTL + c.Late + tick)
	ctx, cancel := context.WithDeadline(c.t.Context(), end)
	defer cancel()
	lock := c.taker(lockers[0], name)
	var all []*holdfast.Lock
	for range max(c.Permits, 1) {
		held, err := lock(ctx)
		if err != nil {
			c.t.Fatalf("after the losses the name stays taken: %v", err)
		}
		all = append(all, held)
	}
	for _, held := range all {
		must.Unlock(c.t, held)
	}
	for _, l := range lockers {
		must.Drain(c.t, l)
	}
	if c.Left != nil {
		await.Until(c.t, time.Until(end), "nothing is left", func() bool { return c.Left(c.t, name) == 0 })
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

// take is Mutex.Lock, or Semaphore.Acquire.
type take func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)

// taker returns how a goroutine gets the lock.
func (c *crew) taker(l *holdfast.Locker, name string) take {
	if c.Permits > 0 {
		return l.Semaphore(name, c.Permits).Acquire
	}
	return c.Mutex(l, name).Lock
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
func (c *crew) contend(ctx context.Context, lock take, long bool, first func()) {
	defer first()
	for ctx.Err() == nil {
		wait := limit
		if rand.IntN(10) == 0 {
			wait = rand.N(3 * time.Millisecond)
		}
		bound, cancel := context.WithTimeout(ctx, wait)
		held, err := lock(bound)
		cancel()
		switch {
		case err == nil:
			c.pass(held, long)
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
	if n := c.inside.Add(1); int(n) > max(c.Permits, 1) {
		c.t.Errorf("%d holders", n)
	}
	switch last := c.token.Swap(lock.Token()); {
	case c.Plain:
	case c.Permits == 0 && lock.Token() <= last:
		c.t.Errorf("token %d after %d", lock.Token(), last)
	case lock.Token() == 0: // those who hold permits at a time do not come here in the order of their tokens
		c.t.Error("a permit without a token")
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
