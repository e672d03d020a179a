package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// process is one client: a Locker and its workers.
type process struct {
	s      *simulation
	id     int
	link   *Link
	locker *holdfast.Locker
	ctx    context.Context // ends when it crashes
	kill   context.CancelFunc
	work   sync.WaitGroup
}

func (s *simulation) newProcess(id int) *process {
	p := &process{s: s, id: id, link: &Link{s: s, id: id}}
	p.link.drift = draw(s, func(r *rand.Rand) float64 { return (r.Float64()*2 - 1) * s.drift })
	p.locker = holdfast.New(s.store.Client(p.link), &holdfast.Options{TTL: s.ttl, Margin: s.margin, Handoff: s.handoff, Note: fmt.Sprint("p", id)})
	p.ctx, p.kill = context.WithCancel(context.Background())
	waits := draw(s, func(r *rand.Rand) bool { return s.plan.processes > 1 && r.IntN(6) == 0 }) // it does little else
	for i := range s.workers {
		w := &worker{process: p, id: i, random: rand.New(rand.NewPCG(s.seed, uint64(id*100+i))), waits: waits}
		p.work.Go(w.run)
	}
	return p
}

func (p *process) alive() bool { return p.ctx.Err() == nil }

// crash ends a process without a word, and starts another one in its place.
func (s *simulation) crash(p *process) {
	s.note("p%d crashes", p.id)
	s.mu.Lock()
	p.link.dead = true
	s.mu.Unlock()
	p.kill()
	next := s.newProcess(p.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.processes {
		if o == p {
			s.processes[i] = next
		}
	}
}

// someProcess returns one, often one that holds.
func (s *simulation) someProcess() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random.IntN(2) == 0 {
		for _, t := range s.names {
			for _, h := range s.holds[t.name] {
				if h.by.process.alive() {
					return h.by.process
				}
			}
		}
	}
	return s.processes[s.random.IntN(len(s.processes))]
}
