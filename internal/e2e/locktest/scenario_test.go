package locktest

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/redishold"
)

// plan is what a worker process has to do.
type plan struct {
	Adapter, Addr string
	Seed          uint64
	Actors        int           // goroutines
	Ops           int           // operations of each actor
	TTL           time.Duration // 0 for the default
	Kind, Name    string        // job "hold"
}

// worker is one run of a worker process.
type worker struct {
	*judge.Process
	s *subject
}

// scenario is a group of worker processes that use the same locks.
type scenario struct {
	s       *subject
	workers []*worker
}

// newScenario returns a scenario whose processes end with the test, if not before.
func newScenario(s *subject) *scenario {
	await.NotShort(s, "takes long")
	c := &scenario{s: s}
	s.Cleanup(func() {
		for _, w := range c.workers {
			w.Stop()
			w.Kill()
		}
	})
	return c
}

// start starts a worker. It talks to the server directly, unless the plan says where.
func (c *scenario) start(job string, p plan) *worker {
	c.s.Helper()
	p.Adapter = c.s.adapter
	if p.Addr == "" {
		p.Addr = c.s.server.Addr()
	}
	text, err := json.Marshal(p)
	if err != nil {
		c.s.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVar+"="+job, "PLAN="+string(text))
	process, err := judge.Start(len(c.workers), cmd, nil)
	if err != nil {
		c.s.Fatal(err)
	}
	w := &worker{Process: process, s: c.s}
	c.workers = append(c.workers, w)
	return w
}

// await returns the first event of that kind, and fails the test if there is none
// within 10 s.
func (w *worker) await(what string) judge.Event {
	w.s.Helper()
	var found judge.Event
	ok := await.Eventually(10*time.Second, func() bool {
		events := w.Events()
		i := slices.IndexFunc(events, func(e judge.Event) bool { return e.What == what })
		if i >= 0 {
			found = events[i]
		}
		return i >= 0
	})
	if !ok {
		w.s.Fatalf("process %d did not report %q: %v %v", w.ID(), what, w.Events(), w.Err())
	}
	return found
}

// workLimit bounds the life of a worker: that it has not come to an end by then
// is a deadlock, not a busy machine.
const workLimit = time.Minute

// finish waits for all processes and returns their history.
func (c *scenario) finish() *judge.History {
	c.s.Helper()
	over := time.After(workLimit)
	var events []judge.Event
	for _, w := range c.workers {
		select {
		case <-w.Done():
		case <-over:
			all := w.Events()
			c.s.Fatalf("process %d has not come to an end within %v: a wait without end? %v", w.ID(), workLimit, all[max(0, len(all)-20):])
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

// workInScenario does a job of a scenario.
func workInScenario(job func(*workload) error) error {
	w := &workload{log: judge.NewRecorder(os.Stdout)}
	if err := json.Unmarshal([]byte(os.Getenv("PLAN")), &w.plan); err != nil {
		return err
	}
	conn, shut, err := dial.Server(w.Adapter, w.Addr, "", "")
	if err != nil {
		return err
	}
	defer shut()
	ctx, cancel := context.WithTimeout(context.Background(), workLimit)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	w.ctx, w.conn = ctx, conn
	return job(w)
}

// locker returns a new Locker of this process.
func (w *workload) locker() *holdfast.Locker {
	return holdfast.New(redishold.New(w.conn, nil), &holdfast.Options{TTL: w.TTL})
}
