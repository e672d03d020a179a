package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
)

// process is one client: a Locker and its workers.
type process struct {
	s      *simulation
	id     int
	link   *Link
	locker *holdfast.Locker
	note   string
	ctx    context.Context // ends when the process crashes or has left
	kill   context.CancelFunc
	calls  context.Context // ends when the process crashes or begins to leave
	stop   context.CancelFunc
	work   sync.WaitGroup

	dropped  atomic.Bool   // a worker has dropped a Lock
	released chan struct{} // receives when a worker releases a lock, if a fault waits for that

	// The mutex of the simulation guards the fields below.

	callers context.Context // of the present calls; ends when all callers give up together
	giveUp  context.CancelFunc
	rests   time.Time // no worker begins another call before that
}

func (s *simulation) newProcess(id int) *process {
	p := &process{s: s, id: id, released: make(chan struct{}), note: fmt.Sprintf("p%d since %v", id, time.Since(s.began))}
	p.link = &Link{process: p, drift: (s.random.Float64()*2 - 1) * s.drift}
	p.locker = holdfast.New(s.store.Client(p.link), &holdfast.Options{TTL: s.ttl, Margin: s.margin, Handoff: s.handoff, Note: p.note})
	p.ctx, p.kill = context.WithCancel(context.Background())
	p.calls, p.stop = context.WithCancel(p.ctx)
	p.callers, p.giveUp = context.WithCancel(p.calls)
	waits := s.plan.processes > 1 && s.random.IntN(6) == 0 // it does little else
	if s.many > 0 {
		p.work.Go(p.holdMany)
	}
	for i := range s.workers {
		w := &worker{process: p, id: i, random: rand.New(rand.NewPCG(s.seed, uint64(id*100+i))), waits: waits} //nolint:gosec // repeatable
		p.work.Go(w.run)
	}
	return p
}

// giveUps makes the callers of processes give up together, until the work is over.
func (s *simulation) giveUps() {
	if s.giveUpEvery == 0 {
		return
	}
	for {
		select {
		case <-s.workIsOver:
			return
		case <-time.After(s.onGrid(s.below(2 * s.giveUpEvery))):
		}
		if s.random.IntN(4) == 0 {
			for _, p := range s.processes {
				p.giveUpAll(0)
			}
			continue
		}
		p := s.processes[s.random.IntN(len(s.processes))]
		s.awaitRelease(p, s.giveUpEvery)
		// If the process rests, only a notification can tell the others that a name is free.
		p.giveUpAll(s.onGrid(s.below(3 * s.takenWithin())))
	}
}

// giveUpAll ends the contexts of all calls of the process that are under way. Its workers begin
// no other call for the time `rest`.
func (p *process) giveUpAll(rest time.Duration) {
	p.s.mu.Lock()
	giveUp := p.giveUp
	p.callers, p.giveUp = context.WithCancel(p.calls)
	p.rests = time.Now().Add(rest)
	p.s.mu.Unlock()
	p.s.note("the callers of p%d give up", p.id)
	giveUp()
}

// resting returns for how long no worker of the process begins another call.
func (p *process) resting() time.Duration {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return time.Until(p.rests)
}

// ofCallers returns the context that ends when the callers of the process give up.
func (p *process) ofCallers() context.Context {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.callers
}

func (p *process) alive() bool { return p.ctx.Err() == nil }

// holdMany holds many locks until the work is over. None of them may be lost, because the only
// faults of such a plan are short pauses of the store: see "A process that holds many locks" in
// docs/guarantees.md.
func (p *process) holdMany() {
	var all []*holdfast.Mutex
	for i := range p.s.many {
		all = append(all, p.locker.Mutex(fmt.Sprint("many ", p.id, " ", i)))
	}
	p.link.allow(6 * len(all))
	locks, err := holdfast.LockAll(p.ctx, all)
	if err == nil {
		p.s.mu.Lock()
		p.s.cost = 25 * time.Millisecond
		if _, ok := p.s.store.(Singly); ok {
			p.s.cost /= time.Duration(p.s.many)
		}
		p.s.mu.Unlock()
		<-p.s.workIsOver
		err = locks.Err()
		_ = locks.Unlock()
	}
	if err != nil {
		p.s.violate("p%d holds many locks: %.200v", p.id, err)
	}
}

// crash ends a process at once: it releases nothing.
func (s *simulation) crash(p *process) {
	s.note("p%d ends", p.id)
	p.kill()
}

// leave ends a process as a program should end: the workers end, and Drain waits for the
// releases. leave then checks that nothing of the process is left in the store.
func (s *simulation) leave(p *process) {
	s.note("p%d leaves", p.id)
	p.stop()
	p.work.Wait()
	err := p.locker.Drain(p.ctx)
	for _, left := range s.store.Left() {
		if err == nil && s.calm() && !p.dropped.Load() && strings.Contains(left, p.note) && !strings.Contains(left, "kept") {
			s.violate("p%d has left, and its lock has not: %s", p.id, left)
		}
	}
	s.crash(p)
}

// replace starts another process with the ID of p, which is about to end.
func (s *simulation) replace(p *process) { s.processes[p.id-1] = s.newProcess(p.id) }
