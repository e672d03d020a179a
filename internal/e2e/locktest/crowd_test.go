package locktest

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
)

// The crowd: processes × goroutines that all want one name.
const (
	crowdProcesses  = 4
	crowdGoroutines = 200
	crowdOps        = 13 // holds for each goroutine: 10,400 in all
)

// No two hold the lock at once, tokens rise in the order of holding, and nobody starves.
func TestCrowd(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		c := newScenario(s, 2*time.Minute)
		began := time.Now()
		for range crowdProcesses {
			c.start(crowdJob, plan{Actors: crowdGoroutines, Ops: crowdOps})
		}
		h := c.finish()
		took := time.Since(began)
		swept := h.Check(judge.Rules{})
		if swept.Err() != nil {
			s.Errorf("violation: %v", swept.Err())
		}
		if want := crowdProcesses * crowdGoroutines * crowdOps; swept.Holds != want {
			s.Errorf("%d holds, want %d", swept.Holds, want)
		}
		longest := time.Duration(0)
		for _, o := range h.Operations {
			longest = max(longest, time.Duration(o.Answered()-o.Called))
		}
		within(s, "longest wait", longest, 5*time.Second)
		s.Logf("%d acquisitions in %v, longest wait %v", swept.Holds, took.Round(time.Millisecond), longest.Round(time.Millisecond))
		gone(s, s.server.Admin, 0)
	})
}

// useInCrowd reports at its end alone: a report at each step would give the processor to the
// parent while somebody holds the lock.
func useInCrowd(w *workload) error {
	var history bytes.Buffer
	log := judge.NewRecorder(&history)
	r := worker.Mutex.Request(w.locker(), "crowd", 0)
	failed := w.each(func(int) error {
		for i := range w.Ops {
			var keep time.Duration
			if i%4 == 0 { // so long that a false grant finds the lock held
				keep = time.Millisecond
			}
			if err := log.Hold(w.ctx, r, keep); err != nil {
				return err
			}
		}
		return nil
	})
	_, err := history.WriteTo(os.Stdout)
	return errors.Join(failed, err)
}
