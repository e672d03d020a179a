// Package lossytest has clients contend for a lock while answers of its store are lost,
// whatever the store is. Package storestest runs it over a real server of each store.
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
	w := &workload{Store: s, t: t, failed: make(chan struct{})}
	lockers := w.lockers()
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
			wg.Go(func() { w.contend(ctx, w.taker(l, name), g == 0, first) })
		}
	}
	long.Wait()
	began := time.Now()
	await.Until(t, limit, "enough is lost", func() bool { return s.Lost() >= losses && w.passed.Load() >= passes })
	t.Logf("%d answers were lost, those of %d renewals of held locks among them; %d locks were taken and %d lost; it took %v after the long ones",
		s.Lost(), w.unanswered.Load(), w.passed.Load(), w.lost.Load(), time.Since(began).Round(time.Millisecond))
	stop()
	s.Heal()
	if n := w.unanswered.Load(); n < renewals {
		t.Errorf("%d renewals had no answer: nothing is tested", n)
	}
	w.free(lockers, name)
}

// free fails t unless all of the name is free within a TTL, and one tick of the server.
func (w *workload) free(lockers []*holdfast.Locker, name string) {
	w.t.Helper()
	end := time.Now().Add(w.TTL + w.Late + tick)
	ctx, cancel := context.WithDeadline(w.t.Context(), end)
	defer cancel()
	lock := w.taker(lockers[0], name)
	var all []*holdfast.Lock
	for range max(w.Permits, 1) {
		held, err := lock(ctx)
		if err != nil {
			w.t.Fatalf("after the losses the name stays taken: %v", err)
		}
		all = append(all, held)
	}
	for _, held := range all {
		must.Unlock(w.t, held)
	}
	for _, l := range lockers {
		must.Drain(w.t, l)
	}
	if w.Left != nil {
		await.Until(w.t, time.Until(end), "nothing is left", func() bool { return w.Left(w.t, name) == 0 })
	}
}

// workload is clients that contend for a lock, and what the lock protects.
type workload struct {
	Store
	t *testing.T

	inside       atomic.Int32
	token        atomic.Uint64
	passed, lost atomic.Int64

	unanswered atomic.Int64  // renewals
	failed     chan struct{} // closed when there are enough of those
}

func (w *workload) lockers() []*holdfast.Locker {
	var all []*holdfast.Locker
	for i := range clients {
		opts := &holdfast.Options{TTL: w.TTL, Observe: w.observe}
		if i > 0 {
			opts.Handoff.Max = -1 // else most never reach the store
		}
		all = append(all, holdfast.New(w.Open(w.t), opts))
	}
	return all
}

// take is Mutex.Lock, or Semaphore.Acquire.
type take func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)

// taker returns how a goroutine gets the lock.
func (w *workload) taker(l *holdfast.Locker, name string) take {
	if w.Permits > 0 {
		return l.Semaphore(name, w.Permits).Acquire
	}
	return w.Mutex(l, name).Lock
}

// observe counts the renewals of held locks that had no answer, and losses.
func (w *workload) observe(_ context.Context, e holdfast.Event) {
	switch {
	case e.Type == holdfast.EventLoss:
		w.lost.Add(1)
	case e.Type == holdfast.EventRenew && e.Err != nil && !errors.Is(e.Err, driver.ErrGone):
		if w.unanswered.Add(1) == renewals {
			close(w.failed)
		}
	}
}

// contend locks and unlocks until ctx ends, and gives up one time in ten after a moment.
// With long it holds its first lock until renewals had no answer. first is called after
// that lock.
func (w *workload) contend(ctx context.Context, lock take, long bool, first func()) {
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
			w.pass(held, long)
			long = false
			first()
		case wait == limit && ctx.Err() == nil:
			w.t.Errorf("Lock: %v", err)
			return
		}
	}
}

// pass is what is done with the lock held.
func (w *workload) pass(lock *holdfast.Lock, long bool) {
	if n := w.inside.Add(1); int(n) > max(w.Permits, 1) {
		w.t.Errorf("%d holders", n)
	}
	switch last := w.token.Swap(lock.Token()); {
	case w.Plain:
	case w.Permits == 0 && lock.Token() <= last:
		w.t.Errorf("token %d after %d", lock.Token(), last)
	case lock.Token() == 0: // those who hold permits at a time do not come here in the order of their tokens
		w.t.Error("a permit without a token")
	}
	if long {
		w.hold(lock)
	}
	w.passed.Add(1)
	w.inside.Add(-1)
	if err := lock.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
		w.t.Errorf("Unlock: %v", err)
	}
}

// hold returns when the answers of enough renewals were lost, or with the lock. A renewal of
// each third of a TTL loses its answer one time in five. So clients that hold one after the
// other for three TTLs have enough only in 99 runs of 100; ten TTLs are rarely needed.
func (w *workload) hold(lock *holdfast.Lock) {
	bound := time.NewTimer(10 * w.TTL)
	defer bound.Stop()
	select {
	case <-w.failed:
	case <-lock.Context(w.t.Context()).Done():
	case <-bound.C:
	}
}
