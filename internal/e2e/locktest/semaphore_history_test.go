package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/must"
)

const (
	semaphorePermits = 5
	semaphoreTTL     = time.Second
)

// Processes that are killed and started again never hold more permits than there
// are, and all permits come back.
func TestSemaphoreHistory(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		c := newCrew(s)
		hire := func() *member {
			return c.hire("semaphore", plan{Actors: 4, TTL: semaphoreTTL, Seed: rand.Uint64()})
		}
		for range 4 {
			hire()
		}
		taken := 0 // how often all permits were, before the first process dies with one
		await.Eventually(5*time.Second, func() bool {
			if s.server.Do("GET", "seats") == any("0") {
				taken++
			}
			return taken == 20
		})
		kills := c.harass(20, 300*time.Millisecond, hire)
		for _, m := range c.members { // all that is held now ends with its lease
			m.Kill()
		}
		stopped := time.Now()
		h := c.finish()
		swept := h.Check(judge.Rules{Permits: semaphorePermits})
		if swept.Err() != nil {
			s.Errorf("violation: %v", swept.Err())
		}
		if swept.Most[judge.Permit] < semaphorePermits || swept.Holds < 200 || kills < 15 {
			s.Errorf("%d holds, at most %d at a time, %d kills: too little to judge", swept.Holds, swept.Most[judge.Permit], kills)
		}

		sem := s.other(nil).Semaphore("seats", semaphorePermits)
		var total, free int
		back := await.Eventually(semaphoreTTL+500*time.Millisecond, func() bool {
			var err error
			if total, free, err = sem.Permits(s.Context()); err != nil {
				s.Fatal(err)
			}
			return total == semaphorePermits && free == semaphorePermits
		})
		if !back {
			s.Errorf("one lease after the last kill: %d permits, %d free, want all %d", total, free, semaphorePermits)
		}
		took := time.Since(stopped)
		var all []*holdfast.Lock
		for range semaphorePermits {
			k, err := sem.TryAcquire(s.Context())
			if err != nil {
				s.Fatalf("permit %d: %v", len(all), err)
			}
			all = append(all, k)
		}
		if _, err := sem.TryAcquire(s.Context()); !errors.Is(err, holdfast.ErrBusy) {
			s.Errorf("one more: got %v, want ErrBusy", err)
		}
		for _, k := range all {
			must.Unlock(s, k)
		}
		s.forget("seats", semaphorePermits)
		gone(s, s.server.Admin, 0)
		s.Logf("%d holds, up to %d at a time, %d kills; all permits back after %v", swept.Holds, swept.Most[judge.Permit], kills, took)
	})
}

// forget waits until the counter of a semaphore says that all permits are free,
// and deletes it: Redisson keeps it forever.
func (s *subject) forget(name string, permits int) {
	s.Helper()
	if !await.Eventually(time.Second, func() bool { return s.server.String("GET", name) == fmt.Sprint(permits) }) {
		s.Errorf("the counter of %q says %s, want %d", name, s.server.String("GET", name), permits)
	}
	s.server.Do("DEL", name)
}

// useSemaphore takes permits until it is stopped.
func useSemaphore(w *worker) error {
	sem := w.locker().Semaphore("seats", semaphorePermits)
	errs := make([]error, w.Actors)
	var wg sync.WaitGroup
	for i := range w.Actors {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(w.Seed, uint64(i)))
			for w.ctx.Err() == nil && errs[i] == nil {
				keep := time.Duration(random.IntN(10_000)) * time.Microsecond
				if random.IntN(50) == 0 {
					keep = w.TTL * 3 / 2 // renewed meanwhile
				}
				errs[i] = w.judged(w.log.Hold(w.ctx, judge.Request{Name: "seats", Side: judge.Permit, Lock: func(ctx context.Context) (*holdfast.Lock, error) {
					return sem.Acquire(ctx)
				}}, keep))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
