package matrix

import (
	"sync"
	"testing"
	"time"
)

// group is cells that share a fault, a failover for instance: each prepares
// itself, then the fault happens once, then each looks at what became of it.
type group struct {
	mu     sync.Mutex
	size   int
	left   []int // the rounds in which cells left without coming
	rounds []*round
	last   round // all come to it, at the end
	broken bool  // the deployment has to be healed
}

type round struct {
	arrived int
	full    chan struct{}
	once    sync.Once
}

func newGroup(size int) *group {
	return &group{size: size, last: round{full: make(chan struct{})}}
}

// together waits for the other cells of the group, lets one of them do what is
// to be done once, and returns when that is done.
func (s *scenario) together(do func()) {
	r := s.group.arrive(s.round)
	s.round++
	<-r.full
	r.once.Do(do)
}

// broke says that the deployment has to be healed at the end.
func (s *scenario) broke() {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	s.group.broken = true
}

func (g *group) arrive(n int) *round {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.round(n)
	r.arrived++
	g.look()
	return r
}

// end waits for the others to be through, whatever became of them, and lets one
// of them heal the deployment if it has to be.
func (g *group) end(from int, heal func()) {
	g.mu.Lock()
	g.left = append(g.left, from)
	g.look()
	if g.last.arrived++; g.last.arrived == g.size {
		close(g.last.full)
	}
	g.mu.Unlock()
	<-g.last.full
	g.last.once.Do(func() {
		if g.broken {
			heal()
		}
	})
}

func (g *group) round(n int) *round {
	for len(g.rounds) <= n {
		g.rounds = append(g.rounds, &round{full: make(chan struct{})})
	}
	return g.rounds[n]
}

// look opens the rounds that are full. g.mu is held.
func (g *group) look() {
	for n, r := range g.rounds {
		there := r.arrived
		for _, l := range g.left {
			if l <= n {
				there++
			}
		}
		if there == g.size {
			select {
			case <-r.full:
			default:
				close(r.full)
			}
		}
	}
}

func TestGroup(t *testing.T) {
	g := newGroup(3)
	var mu sync.Mutex
	done := 0
	count := func() { mu.Lock(); done++; mu.Unlock() }
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			s := &scenario{group: g}
			defer func() { g.end(s.round, count) }()
			s.broke()
			for round := range 3 {
				if i == 1 && round == 1 {
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
		t.Errorf("got %d calls, want 4", done)
	}
}
