package matrix

import (
	"sync"
	"testing"
	"time"
)

// party is cells that share a fault, a failover for instance: each prepares
// itself, then the fault happens once, then each looks at what became of it.
type party struct {
	mu     sync.Mutex
	size   int
	left   []int // the rounds in which guests left without coming
	rounds []*round
	last   round // all come to it, at the end
	broken bool  // the deployment has to be healed
}

type round struct {
	arrived int
	full    chan struct{}
	once    sync.Once
}

func newParty(size int) *party {
	return &party{size: size, last: round{full: make(chan struct{})}}
}

// together waits for the other cells of the party, lets one of them do what is
// to be done once, and returns when that is done.
func (s *scene) together(act func()) {
	r := s.party.arrive(s.round)
	s.round++
	<-r.full
	r.once.Do(act)
}

// broke says that the deployment has to be healed at the end.
func (s *scene) broke() {
	s.party.mu.Lock()
	defer s.party.mu.Unlock()
	s.party.broken = true
}

func (p *party) arrive(n int) *round {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.round(n)
	r.arrived++
	p.look()
	return r
}

// end waits for the others to be through, whatever became of them, and lets one
// of them heal the deployment if it has to be.
func (p *party) end(from int, heal func()) {
	p.mu.Lock()
	p.left = append(p.left, from)
	p.look()
	if p.last.arrived++; p.last.arrived == p.size {
		close(p.last.full)
	}
	p.mu.Unlock()
	<-p.last.full
	p.last.once.Do(func() {
		if p.broken {
			heal()
		}
	})
}

func (p *party) round(n int) *round {
	for len(p.rounds) <= n {
		p.rounds = append(p.rounds, &round{full: make(chan struct{})})
	}
	return p.rounds[n]
}

// look opens the rounds that are full. p.mu is held.
func (p *party) look() {
	for n, r := range p.rounds {
		there := r.arrived
		for _, l := range p.left {
			if l <= n {
				there++
			}
		}
		if there == p.size {
			select {
			case <-r.full:
			default:
				close(r.full)
			}
		}
	}
}

func TestParty(t *testing.T) {
	p := newParty(3)
	var mu sync.Mutex
	done := 0
	count := func() { mu.Lock(); done++; mu.Unlock() }
	var wg sync.WaitGroup
	for guest := range 3 {
		wg.Go(func() {
			s := &scene{party: p}
			defer func() { p.end(s.round, count) }()
			s.broke()
			for n := range 3 {
				if guest == 1 && n == 1 {
					return // one does not come to the second round
				}
				s.together(count)
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("they wait forever")
	}
	if done != 4 {
		t.Errorf("got %d acts, want 4", done)
	}
}
