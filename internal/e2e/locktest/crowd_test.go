package locktest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
)

// The crowd: processes × goroutines that all want one name.
const (
	crowdProcesses  = 4
	crowdGoroutines = 200
	crowdTotal      = 10_000
	crowdLimit      = 2 * time.Minute
)

// No two hold the lock at once, tokens rise in the order of holding, and nobody starves.
func TestCrowd(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		c := newScenario(s, crowdLimit)
		var holds atomic.Int64
		enough := make(chan struct{})
		began := time.Now()
		for range crowdProcesses {
			c.start(crowdJob, plan{Actors: crowdGoroutines}, func(e judge.Event) {
				if e.What == judge.Unlocked && holds.Add(1) == crowdTotal {
					close(enough)
				}
			})
		}
		select {
		case <-enough:
		case <-time.After(crowdLimit):
			s.Errorf("%d acquisitions in %v, want %d", holds.Load(), crowdLimit, crowdTotal)
		}
		c.stop()
		h := c.finish()
		took := time.Since(began)
		swept := h.Check(judge.Rules{})
		if swept.Err() != nil {
			s.Errorf("violation: %v", swept.Err())
		}
		longest, by := time.Duration(0), make([]int, crowdProcesses)
		for _, o := range h.Operations {
			longest = max(longest, time.Duration(o.Answered()-o.Called))
			by[o.Process]++
		}
		if swept.Holds != len(h.Operations) {
			s.Errorf("%d holds of %d calls, want that each got the lock", swept.Holds, len(h.Operations))
		}
		within(s, "longest wait", longest, 5*time.Second)
		s.Logf("%d acquisitions in %v, longest wait %v, by process %v", swept.Holds, took.Round(time.Millisecond), longest.Round(time.Millisecond), by)
		gone(s, s.server.Admin, 0)
	})
}

// useInCrowd takes the lock again and again. The process ends when each call has got it.
func useInCrowd(w *workload) error {
	l := w.locker()
	r := worker.Mutex.Request(l, "crowd", 0)
	ctx, cancel := context.WithTimeout(context.Background(), w.Limit)
	defer cancel()
	return w.each(func(int) error {
		for w.ctx.Err() == nil {
			if err := w.log.Hold(ctx, r, 0); err != nil {
				return err
			}
		}
		return nil
	})
}
