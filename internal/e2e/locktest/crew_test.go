package locktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redishold"
)

// plan is what a worker process is told to do.
type plan struct {
	Adapter, Addr string
	Seed          uint64
	Actors        int           // goroutines
	Ops           int           // operations of each actor
	TTL           time.Duration // 0 for the default
	Kind, Name    string        // job "hold"
}

// member is one run of a worker process, and what it has reported.
type member struct {
	s      *subject
	id     int
	cmd    *exec.Cmd
	orders io.Closer // its standard input: closed, it comes to an end
	done   chan struct{}
	stderr bytes.Buffer

	mu     sync.Mutex
	events []event
	killed bool
	err    error
}

// crew is a group of worker processes.
type crew struct {
	s       *subject
	members []*member
}

// newCrew returns a crew whose processes end with the test, if not before.
func newCrew(s *subject) *crew {
	c := &crew{s: s}
	s.Cleanup(func() {
		for _, m := range c.members {
			_ = m.orders.Close()
			_ = m.cmd.Process.Kill()
			<-m.done
		}
	})
	return c
}

// hire starts a worker. It talks to the server directly.
func (c *crew) hire(job string, p plan) *member {
	c.s.Helper()
	p.Adapter, p.Addr = c.s.adapter, c.s.server.Addr()
	text, err := json.Marshal(p)
	if err != nil {
		c.s.Fatal(err)
	}
	m := &member{s: c.s, id: len(c.members), cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), workerVar+"="+job, "PLAN="+string(text))
	m.cmd.Stderr = &m.stderr
	in, err := m.cmd.StdinPipe()
	if err != nil {
		c.s.Fatal(err)
	}
	m.orders = in
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		c.s.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		c.s.Fatal(err)
	}
	c.members = append(c.members, m)
	go m.listen(out)
	return m
}

// listen collects the lines of the process until it is gone.
func (m *member) listen(out io.Reader) {
	defer close(m.done)
	lines := json.NewDecoder(out)
	for {
		var e event
		if lines.Decode(&e) != nil {
			break // the end, or half a line of a process that was killed
		}
		e.process = m.id
		m.mu.Lock()
		m.events = append(m.events, e)
		m.mu.Unlock()
	}
	err := m.cmd.Wait()
	m.mu.Lock()
	m.err = err
	m.mu.Unlock()
}

// note adds an event that the process cannot report itself.
func (m *member) note(what string) int64 {
	now := time.Now().UnixNano()
	m.mu.Lock()
	m.events = append(m.events, event{At: now, What: what, Op: -1, process: m.id})
	m.mu.Unlock()
	return now
}

// kill ends the process with SIGKILL, if it has not ended, and waits until it is
// gone.
func (m *member) kill() {
	select {
	case <-m.done:
		return
	default:
	}
	m.mu.Lock()
	m.killed = true
	m.mu.Unlock()
	m.note(evKilled)
	_ = m.cmd.Process.Kill()
	<-m.done
}

// pause stops the process. It returns when it has stopped.
func (m *member) pause() {
	m.note(evPaused)
	_ = m.cmd.Process.Signal(syscall.SIGSTOP)
}

// resume lets the process go on and returns when that was.
func (m *member) resume() time.Time {
	at := time.Unix(0, m.note(evResumed))
	_ = m.cmd.Process.Signal(syscall.SIGCONT)
	return at
}

// stop asks the process to come to an end.
func (m *member) stop() { _ = m.orders.Close() }

// await returns the first event of that kind, and fails the test if there is none
// within 10 s.
func (m *member) await(what string) event {
	m.s.Helper()
	var found event
	ok := eventually(10*time.Second, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.IndexFunc(m.events, func(e event) bool { return e.What == what })
		if i >= 0 {
			found = m.events[i]
		}
		return i >= 0
	})
	if !ok {
		m.s.Fatalf("process %d did not report %q: %v %s", m.id, what, m.report(), m.stderr.String())
	}
	return found
}

func (m *member) report() []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}

// stop asks all processes to come to an end.
func (c *crew) stop() {
	for _, m := range c.members {
		m.stop()
	}
}

// workLimit bounds the life of a worker: that it has not come to an end by then
// is a deadlock, not a busy machine.
const workLimit = time.Minute

// finish waits for all processes and returns their history.
func (c *crew) finish() *history {
	c.s.Helper()
	over := time.After(workLimit)
	var events []event
	for _, m := range c.members {
		select {
		case <-m.done:
		case <-over:
			c.s.Fatalf("process %d has not come to an end within %v: a wait without end?%s", m.id, workLimit, tail(m.report()))
		}
		if m.err != nil && !m.killed {
			c.s.Errorf("process %d: %v: %s", m.id, m.err, m.stderr.String())
		}
		events = append(events, m.report()...)
	}
	return newHistory(events)
}

func tail(events []event) string {
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
	log  *recorder
}

// workInCrew does a job of jobs.
func workInCrew(job func(*worker) error) error {
	w := &worker{log: newRecorder(os.Stdout)}
	if err := json.Unmarshal([]byte(os.Getenv("PLAN")), &w.plan); err != nil {
		return err
	}
	conn, shut, err := dial(w.Adapter, w.Addr, "", "")
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
func (w *worker) locker() *holdfast.Locker {
	return holdfast.New(redishold.New(w.conn, nil), &holdfast.Options{TTL: w.TTL})
}

// recorder writes a history.
type recorder struct {
	last atomic.Int64 // operation
	mu   sync.Mutex
	out  *json.Encoder
}

func newRecorder(out io.Writer) *recorder { return &recorder{out: json.NewEncoder(out)} }

func (r *recorder) write(e event) {
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(e)
}

// request is what is asked for, as a history shows it.
type asked struct {
	name  string
	side  side
	lease time.Duration
	fixed bool // the lease is not renewed
	lock  func(context.Context) (*holdfast.Lock, error)
}

// take asks for a lock and returns it with the number of the operation.
func (r *recorder) take(ctx context.Context, a asked) (*holdfast.Lock, int64, error) {
	op := r.called(a)
	k, err := a.lock(ctx)
	r.answered(op, k, err)
	return k, op, err
}

func (r *recorder) called(a asked) int64 {
	op := r.last.Add(1)
	r.write(event{What: evCalled, Op: op, Name: a.name, Side: a.side, Lease: int64(a.lease), Fixed: a.fixed})
	return op
}

// answered writes down what came of an operation. Of a lock that was granted it
// will write down the loss.
func (r *recorder) answered(op int64, k *holdfast.Lock, err error) {
	now := time.Now().UnixNano()
	if err != nil {
		r.write(event{At: now, What: evFailed, Op: op, Err: errorWord(err)})
		return
	}
	r.write(event{At: now, What: evGranted, Op: op, Token: k.Token(), Left: int64(k.Remaining())})
	held := k.Context(context.Background())
	context.AfterFunc(held, func() {
		now := time.Now().UnixNano()
		if errors.Is(context.Cause(held), holdfast.ErrLost) {
			r.write(event{At: now, What: evLost, Op: op, Err: context.Cause(held).Error()})
		}
	})
}

// give gives a lock back.
func (r *recorder) give(k *holdfast.Lock, op int64) error {
	r.write(event{What: evUnlock, Op: op})
	err := k.Unlock()
	r.write(event{What: evUnlocked, Op: op, Err: errorWord(err)})
	return err
}

// hold takes a lock, keeps it for a while and gives it back.
func (r *recorder) hold(ctx context.Context, a asked, keep time.Duration) error {
	k, op, err := r.take(ctx, a)
	if err != nil {
		return err
	}
	if keep > 0 {
		time.Sleep(keep)
	}
	return r.give(k, op)
}

// errorWord returns what a history says of an error.
func errorWord(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, holdfast.ErrBusy):
		return "busy"
	case errors.Is(err, holdfast.ErrLost):
		return "lost"
	default:
		return err.Error()
	}
}
