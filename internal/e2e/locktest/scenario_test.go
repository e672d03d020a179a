package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/redishold"
)

// plan is what a worker process has to do.
type plan struct {
	Adapter, Addr string
	Layout        redishold.Layout
	Seed          uint64
	Actors        int           // goroutines
	Ops           int           // operations of each actor
	TTL           time.Duration // 0 for the default
	Limit         time.Duration // of the process
	Kind          worker.Kind
	Name          string
}

// scenario is a group of worker processes that use the same locks.
type scenario struct {
	s       *subject
	limit   time.Duration
	workers []*judge.Process
}

// workLimit bounds the life of most workers: that one has not come to an end by then is a
// deadlock, not a busy machine.
const workLimit = time.Minute

// newScenario returns a scenario whose processes end with the test, or after limit.
func newScenario(s *subject, limit time.Duration) *scenario {
	c := &scenario{s: s, limit: limit}
	s.Cleanup(func() {
		for _, w := range c.workers {
			w.Stop()
			w.Kill()
		}
	})
	return c
}

// start starts a worker, which talks to the server directly.
func (c *scenario) start(job string, p plan) *judge.Process {
	c.s.Helper()
	p.Adapter, p.Addr, p.Limit = c.s.adapter, c.s.server.Addr(), c.limit
	w, err := worker.Start(len(c.workers), job, p, nil)
	if err != nil {
		c.s.Fatal(err)
	}
	c.workers = append(c.workers, w)
	return w
}

// finish waits for all processes and returns their history.
func (c *scenario) finish() *judge.History {
	c.s.Helper()
	over := time.After(c.limit)
	var events []judge.Event
	for _, w := range c.workers {
		select {
		case <-w.Done():
		case <-over:
			all := w.Events()
			c.s.Fatalf("process %d has not come to an end within %v: a wait without end? %v", w.ID(), c.limit, all[max(0, len(all)-20):])
		}
		if err := w.Err(); err != nil {
			c.s.Error(err)
		}
		events = append(events, w.Events()...)
	}
	return judge.New(events)
}

// workload is the other side: what a worker process does.
type workload struct {
	plan
	ctx  context.Context // ends when the parent says so, or is gone
	conn redishold.Conn
	log  *judge.Recorder
}

// inScenario returns a job that does what do does.
func inScenario(do func(*workload) error) func(*worker.Worker) error {
	return func(process *worker.Worker) error {
		w := &workload{log: process.Log}
		if err := process.Plan(&w.plan); err != nil {
			return err
		}
		conn, shut, err := dial.Server(w.Adapter, w.Addr, "", "")
		if err != nil {
			return err
		}
		defer shut()
		ctx, cancel := process.UntilStopped(w.Limit)
		defer cancel()
		w.ctx, w.conn = ctx, conn
		return do(w)
	}
}

// locker returns a new Locker of this process.
func (w *workload) locker() *holdfast.Locker {
	return holdfast.New(redishold.New(w.conn, &redishold.Options{Layout: w.Layout}), &holdfast.Options{TTL: w.TTL})
}

// each calls do for each actor at once, and returns what all of them returned.
func (w *workload) each(do func(actor int) error) error {
	errs := make([]error, w.Actors)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
