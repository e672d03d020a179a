package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

// jobSoak is the only job of a worker process.
const jobSoak = "soak"

// jobs are what this program does if it was started again as a worker.
func jobs() map[string]func(*worker.Worker) error {
	return map[string]func(*worker.Worker) error{jobSoak: work}
}

// What workers say of themselves, beside what they do with locks.
const (
	ready  = "ready"  // connected
	rested = "rested" // nobody holds or waits, nothing goes on in the background
	ended  = "ended"  // the connections are closed
	broken = "broken" // something that is not about timing: Err says what
)

// plan is what a worker gets when it starts.
type plan struct {
	Targets []dial.Target // several for a quorum
	Store   string        // if it is no Redis; then Addr is where
	Addr    string
	TTL     time.Duration
	Margin  time.Duration // 0 for the default
	Only    string        // the only workload; "" for all
	Mutant  string        // what is wrong with the worker
	Long    int           // one in so many holds is long enough to be renewed
}

// order is what it gets later, one a line.
type order struct {
	Round int    // work, under names of this round
	Rest  bool   // stop: finish what was begun, begin nothing
	Seed  uint64 // of the round and the place
}

// user is a process that uses locks.
type user struct {
	plan
	backend driver.Backend
	log     *judge.Recorder
	held    holds
	callers callers
	shared  *holdfast.Locker   // of most goroutines
	lockers []*holdfast.Locker // all
}

// work is the worker process: it carries out orders until there are no more.
func work(process *worker.Worker) error {
	w := &user{log: process.Log}
	if err := process.Plan(&w.plan); err != nil {
		return err
	}
	w.log.Watched = true
	idle := goleak.IgnoreCurrent()
	sockets := openSockets()
	shut, err := w.connect()
	if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(context.Background())
	watched := worker.Watch(watching, func(s judge.Span) {
		w.log.Write(judge.Event{At: s.To, What: judge.Stalled, Op: -1, Left: int64(s.Duration())})
	})
	w.log.Write(judge.Event{What: ready, Op: -1})
	w.obey(os.Stdin)
	cancel()
	watched()
	shut()
	return w.leftOver(idle, sockets)
}

// connect opens the way to the store.
func (w *user) connect() (shut func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if w.Store != "" {
		anystore.Quiet()
		store, err := anystore.Named(w.Store)
		if err != nil {
			return nil, err
		}
		if w.backend, shut, err = store.Dial(w.Addr, w.TTL); err != nil {
			return nil, err
		}
		w.backend = mutated(w.backend, w.Mutant)
		w.shared = w.locker()
		return shut, nil
	}
	var backends []driver.Backend
	var closers []func()
	shut = func() {
		for _, c := range closers {
			c()
		}
	}
	for _, t := range w.Targets {
		conn, end, err := open(ctx, t)
		if err != nil {
			shut()
			return nil, err
		}
		closers = append(closers, end)
		backends = append(backends, redishold.New(conn, nil))
	}
	w.backend = backends[0]
	if len(backends) > 1 {
		// The servers keep what they acknowledged on disk.
		if w.backend, err = quorum.New(backends, &quorum.Options{TrustRestarts: true}); err != nil {
			shut()
			return nil, err
		}
	}
	w.backend = mutated(w.backend, w.Mutant)
	w.shared = w.locker()
	return shut, nil
}

// open connects, although there may be faults already.
func open(ctx context.Context, t dial.Target) (redishold.Conn, func(), error) {
	for {
		conn, shut, err := dial.Open(ctx, t)
		if err == nil || ctx.Err() != nil {
			return conn, shut, err
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// silentAfter is how long a call may take until the time counts in which the store does not answer.
const silentAfter = 50 * time.Millisecond

// locker returns a new Locker whose renewals are written down.
func (w *user) locker() *holdfast.Locker {
	l := holdfast.New(w.backend, &holdfast.Options{TTL: w.TTL, Margin: w.Margin, Observe: func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventCall && e.Took > silentAfter {
			w.log.Write(judge.Event{What: judge.Silent, Op: -1, Left: int64(e.Took)})
		}
		switch {
		case e.Type == holdfast.EventRenew && e.Err == nil:
			w.held.renewed(w.log, e)
		case e.Type == holdfast.EventCall && e.Op == holdfast.OpTry && e.Err != nil && !errors.Is(e.Err, driver.ErrNotExecuted):
			w.log.Write(judge.Event{What: judge.Unanswered, Op: -1, Name: e.Name})
		}
	}})
	w.lockers = append(w.lockers, l)
	return l
}

// obey carries out orders: it works from one that names a round until the next.
func (w *user) obey(in io.Reader) {
	workloads := w.workloads()
	lines := bufio.NewScanner(in)
	stop := func() {}
	for lines.Scan() {
		var o order
		if json.Unmarshal(lines.Bytes(), &o) != nil {
			continue
		}
		stop()
		stop = func() {}
		if o.Rest {
			w.report()
			continue
		}
		stop = w.round(o, workloads)
	}
	stop()
	w.drain()
}

// round runs all workloads. The function it returns lets them finish what they
// have begun.
func (w *user) round(o order, workloads []workload) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for i, do := range workloads {
		t := newTurn(w, o, i, ctx)
		working.Go(func() {
			for ctx.Err() == nil {
				do(t)
				t.nap(20 * time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
		w.callers.end()
	}
}

// drain waits for what goes on in the background, which ends within one TTL.
func (w *user) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*w.TTL+time.Second)
	defer cancel()
	for _, l := range w.lockers {
		if err := l.Drain(ctx); err != nil {
			w.broken(fmt.Errorf("the background work of a Locker goes on for longer than two TTL: %w", err))
		}
	}
}

func (w *user) broken(err error) {
	w.log.Write(judge.Event{What: broken, Op: -1, Err: err.Error()})
}

// report says that the worker is at rest, and what it uses then.
func (w *user) report() {
	w.drain()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var stacks string
	if runtime.NumGoroutine() > manyGoroutines {
		text := make([]byte, 1<<20)
		stacks = string(text[:runtime.Stack(text, true)])
	}
	w.log.Write(judge.Event{What: rested, Op: -1, Err: stacks, Figures: map[string]int64{
		"goroutines": int64(runtime.NumGoroutine()), "heap": int64(m.HeapAlloc), "sockets": int64(openSockets()), "held": int64(w.held.count()),
	}})
}

// manyGoroutines is more than a worker has at rest: it reports their stacks then.
const manyGoroutines = 30

// leftOver looks for what should have ended with the connections. rueidis closes
// those of a node that has left five seconds after it saw that, whatever became of
// the client meanwhile, and a goroutine of theirs may then still be in a handshake.
func (w *user) leftOver(idle goleak.Option, sockets int) error {
	end := time.Now().Add(15 * time.Second)
	err := goleak.Find(idle)
	for (err != nil || openSockets() > sockets) && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
		err = goleak.Find(idle)
	}
	if err != nil {
		err = errors.Join(errors.New("goroutines left"), err)
	}
	e := judge.Event{What: ended, Op: -1, Figures: map[string]int64{"sockets": int64(openSockets() - sockets)}}
	if err != nil {
		e.Err = err.Error()
	}
	w.log.Write(e)
	return nil
}

// openSockets counts the sockets of this process, where /proc shows them.
func openSockets() int {
	const dir = "/proc/self/fd"
	links, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	n := 0
	for _, l := range links {
		if to, err := os.Readlink(dir + "/" + l.Name()); err == nil && len(to) > 7 && to[:7] == "socket:" {
			n++
		}
	}
	return n
}

// holds are the locks that the process holds, by Locker, name and token, for
// what an observer learns of renewals.
type holds struct {
	mu  sync.Mutex
	all map[holdKey]holding
}

type holdKey struct {
	name  string
	token uint64
}

type holding struct {
	lock *holdfast.Lock
	op   int64
}

func (h *holds) add(k *holdfast.Lock, op int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[holdKey]holding{}
	}
	h.all[holdKey{k.Name(), k.Token()}] = holding{k, op}
}

func (h *holds) remove(k *holdfast.Lock, op int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := holdKey{k.Name(), k.Token()}
	if h.all[key].op == op {
		delete(h.all, key)
	}
}

func (h *holds) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// renewed writes down that the store has confirmed a hold.
func (h *holds) renewed(log *judge.Recorder, e holdfast.Event) {
	h.mu.Lock()
	k, ok := h.all[holdKey{e.Name, e.Token}]
	h.mu.Unlock()
	if !ok {
		return // granted a moment ago, and not yet added
	}
	now := time.Now().UnixNano()
	if left := k.lock.Remaining(); left > 0 {
		log.Write(judge.Event{At: now, What: judge.Renewed, Op: k.op, Left: int64(left)})
	}
}
