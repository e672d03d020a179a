package matrix

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// lanes is how many cells of a deployment are played at a time. Only those that
// have servers of their own can.
func (d deployment) lanes() int {
	switch d {
	case single:
		return 5
	case quorum5:
		return 3
	default:
		return 1
	}
}

// TestMatrix plays every cell. Those of a deployment that is slow to start share
// its servers, one after the other; the deployments go side by side.
func TestMatrix(t *testing.T) {
	redistest.Start(t).Close() // skips, or fails, where there is no redis-server
	var wg sync.WaitGroup      // not t.Parallel, which would play two on two cores, and they mostly wait
	for _, on := range deployments() {
		wg.Go(func() {
			t.Run(string(on), func(t *testing.T) { playAll(t, on) })
		})
	}
	wg.Wait()
}

func playAll(t *testing.T, on deployment) {
	var shared *world
	if on.lanes() == 1 {
		shared = newWorld(t, on)
	}
	parties := make(chan []cell)
	var wg sync.WaitGroup
	for range on.lanes() {
		wg.Go(func() {
			for cells := range parties {
				for _, adapter := range adapters(cells[0]) {
					playParty(t, shared, cells, adapter)
				}
			}
		})
	}
	for _, cells := range partiesOf(on) {
		parties <- cells
	}
	close(parties)
	wg.Wait()
}

// partiesOf returns the cells of a deployment that have a check, those together
// that share a fault.
func partiesOf(on deployment) [][]cell {
	var parties [][]cell
	at := map[string]int{}
	for _, c := range cells() {
		if c.on != on || c.check == nil {
			continue
		}
		if i, ok := at[c.party]; ok && c.party != "" {
			parties[i] = append(parties[i], c)
			continue
		}
		at[c.party] = len(parties)
		parties = append(parties, []cell{c})
	}
	return parties
}

// adapters returns those that cells are played on: both where they have servers
// of their own, else one and the other in turn.
func adapters(c cell) []string {
	both := dial.Adapters()
	if c.on.lanes() > 1 {
		return both
	}
	turn := 0
	for _, b := range []byte(string(c.on) + c.fault) {
		turn += int(b)
	}
	return both[turn%2 : turn%2+1]
}

func (c cell) name() string {
	return c.fault + "/" + strings.ReplaceAll(string(c.kind), " ", "-")
}

// playParty plays cells that belong together.
func playParty(t *testing.T, shared *world, cells []cell, adapter string) {
	if len(cells) == 1 {
		t.Run(cells[0].name()+"/"+adapter, func(t *testing.T) {
			failures := conclusive(t, func(n int) []string {
				return playCell(t, shared, cells[0], adapter, n, newParty(1))
			})
			if c := cells[0]; c.gap != "" && c.gapOn == adapter {
				if len(failures) == 0 {
					t.Fatalf("the gap is closed; remove its entry: %s", c.gap)
				}
				t.Skipf("known gap: %s: %q", c.gap, failures)
			}
			for _, failure := range failures {
				t.Error(failure)
			}
		})
		return
	}
	t.Run(cells[0].party+"/"+adapter, func(t *testing.T) {
		failures := conclusive(t, func(n int) []string {
			p := newParty(len(cells))
			all := make([][]string, len(cells))
			var wg sync.WaitGroup
			for i, c := range cells {
				wg.Go(func() {
					for _, failure := range playCell(t, shared, c, adapter, n, p) {
						all[i] = append(all[i], c.name()+": "+failure)
					}
				})
			}
			wg.Wait()
			return slices.Concat(all...)
		})
		for _, failure := range failures {
			t.Error(failure)
		}
	})
}

// playCell plays one cell for the n-th time and returns what failed.
func playCell(t *testing.T, shared *world, c cell, adapter string, n int, p *party) []string {
	return try(t, func(a *attempt) {
		s := &scene{
			TB: a, cell: c, adapter: adapter, ttl: c.on.ttl(), party: p,
			name: fmt.Sprintf("%s-%s-%s-%d", c.fault, c.kind, adapter, n),
		}
		defer s.finish()
		if shared == nil {
			s.world = newWorld(a, c.on)
		} else {
			s.world = shared.bind(a)
		}
		s.check(s)
	})
}
