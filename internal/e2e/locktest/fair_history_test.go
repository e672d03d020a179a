package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/internal/must"
)

const (
	fairProcesses = 3
	fairWaiters   = 8
	fairOps       = 84 // grants for each waiter: 2,016 in all
)

// Over all processes a fair lock goes to waiters in the order in which
// they came, by what Redis executed, and nobody who gave up stays in its keys.
func TestFairHistory(t *testing.T) {
	await.NotShort(t, "takes long")
	eachAdapter(t, func(s *subject) {
		end := monitor(s)
		c := newScenario(s, workLimit)
		for range fairProcesses {
			c.start(fairJob, plan{Actors: fairWaiters, Ops: fairOps, Seed: rand.Uint64()})
		}
		h := c.finish()
		swept := h.Check(judge.Rules{})
		if swept.Err() != nil {
			s.Errorf("violation: %v", swept.Err())
		}
		failed := 0
		for _, o := range h.Operations {
			if o.Failed != judge.Never {
				failed++
			}
		}
		r := newFairReplay("queue")
		r.run(end())
		if err := r.over(); err != nil {
			s.Errorf("violation: %v", err)
		}
		if want := fairProcesses * fairWaiters * fairOps; swept.Holds != want || r.grants < want || r.grants > want+failed {
			s.Errorf("%d holds, %d grants in Redis; want %d, and up to %d grants that came too late", swept.Holds, r.grants, want, failed)
		}
		if r.queued < 1000 || r.gaveUp < 50 || r.gaveUp > failed || r.dropped > 0 {
			s.Errorf("%d queued up, %d gave up of %d that failed, %d were dropped", r.queued, r.gaveUp, failed, r.dropped)
		}
		gone(s, s.server.Admin, 0)
		s.Logf("%d grants, %d of them to waiters; %d gave up", r.grants, r.queued-r.gaveUp, r.gaveUp)
	})
}

func useFair(w *workload) error {
	l := w.locker()
	failed := w.each(func(actor int) error {
		random := rand.New(rand.NewPCG(w.Seed, uint64(actor)))
		for held := 0; held < w.Ops; {
			switch err := w.useFairMutex(l, random); {
			case err == nil:
				held++
			case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrBusy) || w.ctx.Err() != nil:
				return err
			}
			time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
		}
		return nil
	})
	return errors.Join(failed, l.Drain(w.ctx))
}

func (w *workload) useFairMutex(l *holdfast.Locker, random *rand.Rand) error {
	ctx, cancel := context.WithCancel(w.ctx)
	a := worker.Fair.Request(l, "queue", 0)
	switch n := random.IntN(10); {
	case n < 2:
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(random.IntN(60_000))*time.Microsecond)
	case n < 3:
		a.Lock = func(ctx context.Context) (*holdfast.Lock, error) { return l.FairMutex("queue").TryLock(ctx) }
	}
	defer cancel()
	return w.log.Hold(ctx, a, time.Duration(random.IntN(300))*time.Microsecond)
}

// A waiter that is killed at the head of the queue delays the next one by five
// seconds at most.
func TestKilledHeadOfTheQueue(t *testing.T) {
	await.NotShort(t, "takes long")
	eachAdapter(t, func(s *subject) {
		holder := s.get(s.other(nil).FairMutex("queue").Lock)
		head := newScenario(s, workLimit).start(holdJob, plan{Kind: worker.Fair, Name: "queue"})
		waiting := func(n int64) {
			s.Helper()
			if !await.Eventually(5*time.Second, func() bool { return s.server.Int("LLEN", "redisson_lock_queue:{queue}") == n }) {
				s.Fatalf("%d wait, want %d", s.server.Int("LLEN", "redisson_lock_queue:{queue}"), n)
			}
		}
		waiting(1)
		next := make(chan *holdfast.Lock, 1)
		m := s.other(nil).FairMutex("queue")
		go func() {
			k, err := m.Lock(s.Context())
			if err != nil {
				s.Errorf("the next: %v", err)
			}
			next <- k
		}()
		waiting(2)
		head.Kill()
		must.Unlock(s, holder)
		freed := time.Now()
		k := <-next
		delay := time.Since(freed)
		within(s, "the next one waited", delay, 5*time.Second)
		if k != nil {
			must.Unlock(s, k)
		}
		gone(s, s.server.Admin, 0)
		s.Logf("the next one waited %v", delay.Round(time.Millisecond))
	})
}
