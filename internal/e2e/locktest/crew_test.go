package locktest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/retry"
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

// member is one run of a worker process.
type member struct {
	*judge.Process
	s *subject
}

// crew is a group of worker processes.
type crew struct {
	s       *subject
	members []*member
}

// newCrew returns a crew whose processes end with the test, if not before. Their
// histories take minutes together.
func newCrew(s *subject) *crew {
	await.NotShort(s, "takes long")
	c := &crew{s: s}
	s.Cleanup(func() {
		for _, m := range c.members {
			m.Stop()
			m.Kill()
		}
	})
	return c
}

// hire starts a worker. It talks to the server directly, unless the plan says where.
func (c *crew) hire(job string, p plan) *member {
	c.s.Helper()
	p.Adapter, p.Addr = c.s.adapter, cmp.Or(p.Addr, c.s.server.Addr())
	text, err := json.Marshal(p)
	if err != nil {
		c.s.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVar+"="+job, "PLAN="+string(text))
	process, err := judge.Start(len(c.members), cmd, nil)
	if err != nil {
		c.s.Fatal(err)
	}
	m := &member{Process: process, s: c.s}
	c.members = append(c.members, m)
	return m
}

// await returns the first event of that kind, and fails the test if there is none
// within 10 s.
func (m *member) await(what string) judge.Event {
	m.s.Helper()
	var found judge.Event
	ok := await.Eventually(10*time.Second, func() bool {
		events := m.Events()
		i := slices.IndexFunc(events, func(e judge.Event) bool { return e.What == what })
		if i >= 0 {
			found = events[i]
		}
		return i >= 0
	})
	if !ok {
		m.s.Fatalf("process %d did not report %q: %v %v", m.ID(), what, m.Events(), m.Err())
	}
	return found
}

// stop asks all processes to come to an end.
func (c *crew) stop() {
	for _, m := range c.members {
		m.Stop()
	}
}

// workLimit bounds the life of a worker: that it has not come to an end by then
// is a deadlock, not a busy machine.
const workLimit = time.Minute

// finish waits for all processes and returns their history.
func (c *crew) finish() *judge.History {
	c.s.Helper()
	over := time.After(workLimit)
	var events []judge.Event
	for _, m := range c.members {
		select {
		case <-m.Done():
		case <-over:
			c.s.Fatalf("process %d has not come to an end within %v: a wait without end?%s", m.ID(), workLimit, tail(m.Events()))
		}
		if err := m.Err(); err != nil {
			c.s.Error(err)
		}
		events = append(events, m.Events()...)
	}
	return judge.New(events)
}

func tail(events []judge.Event) string {
	text := ""
	for _, e := range events[max(0, len(events)-20):] {
		text += fmt.Sprintf("\n\t%v", e)
	}
	return text
}

// worker is the other side: a process of a crew.
type worker struct {
	plan
	ctx  context.Context // ends when the parent says so, or is gone
	conn redishold.Conn
	log  *judge.Recorder
}

// workInCrew does a job of jobs.
func workInCrew(job func(*worker) error) error {
	w := &worker{log: judge.NewRecorder(os.Stdout)}
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

// judged returns nil for an outcome that the history judges: busy, lost, no answer in time,
// as when the machine stands still for a second, or the end of the work.
func (w *worker) judged(err error) error {
	for _, known := range []error{holdfast.ErrBusy, holdfast.ErrLost, retry.ErrNoAnswer, context.DeadlineExceeded} {
		if w.ctx.Err() != nil || errors.Is(err, known) {
			return nil
		}
	}
	return err
}

// locker returns a new Locker of this process.
func (w *worker) locker() *holdfast.Locker {
	return holdfast.New(redishold.New(w.conn, nil), &holdfast.Options{TTL: w.TTL})
}
