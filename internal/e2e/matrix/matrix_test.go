package matrix

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// lanes is how many cells of a deployment run at a time. Only those that
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

// TestMatrix runs every cell. Those of a deployment that is slow to start share
// its servers, one after the other; the deployments go side by side.
func TestMatrix(t *testing.T) {
	redistest.Start(t).Close() // skips, or fails, where there is no redis-server
	var wg sync.WaitGroup      // not t.Parallel, which would run two on two cores, and they mostly wait
	var repeated atomic.Int32
	for _, on := range deployments() {
		wg.Go(func() {
			t.Run(string(on), func(t *testing.T) { runAll(t, on, &repeated) })
		})
	}
	wg.Wait()
	t.Logf("%d cells ran again", repeated.Load())
	if n := repeated.Load(); n > repeats {
		t.Errorf("%d cells ran again, want at most %d: the machine is too busy to tell", n, repeats)
	}
}

// TestMatrixOfStores runs the cells of the stores that are no Redis, one after the
// other: each store has one server for all of its cells.
func TestMatrixOfStores(t *testing.T) {
	await.NotShort(t, "half a minute to a minute for each store")
	anystore.Quiet()
	for _, on := range stores() {
		t.Run(string(on), func(t *testing.T) {
			var repeated atomic.Int32
			runAll(t, on, &repeated)
			if n := repeated.Load(); n > repeats {
				t.Errorf("%d cells ran again, want at most %d: the machine is too busy to tell", n, repeats)
			}
		})
	}
}

func runAll(t *testing.T, on deployment, repeated *atomic.Int32) {
	var shared *world
	if on.lanes() == 1 {
		shared = newWorld(t, on)
	}
	groups := make(chan []cell)
	var wg sync.WaitGroup
	for range on.lanes() {
		wg.Go(func() {
			for cells := range groups {
				for _, adapter := range adapters(cells[0]) {
					runGroup(t, repeated, shared, cells, adapter)
				}
			}
		})
	}
	for _, cells := range groupsOf(on) {
		groups <- cells
	}
	close(groups)
	wg.Wait()
}

// groupsOf returns the cells of a deployment that have a check, those together that share a
// fault.
func groupsOf(on deployment) [][]cell {
	var groups [][]cell
	at := map[string]int{}
	for _, c := range slices.Concat(cells(), storeCells()) {
		if c.on != on || c.check == nil {
			continue
		}
		if i, ok := at[c.group]; ok && c.group != "" {
			groups[i] = append(groups[i], c)
			continue
		}
		at[c.group] = len(groups)
		groups = append(groups, []cell{c})
	}
	return groups
}

// adapters returns those that cells run on: both where they have servers
// of their own, else one and the other in turn.
func adapters(c cell) []string {
	if c.on.store() != nil {
		return []string{""} // there is one client
	}
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

// runGroup runs cells that belong together.
func runGroup(t *testing.T, repeated *atomic.Int32, shared *world, cells []cell, adapter string) {
	if len(cells) == 1 {
		t.Run(path.Join(cells[0].name(), adapter), func(t *testing.T) {
			v := conclusive(t, repeated, func(n int, clk *clock) verdict {
				return runCell(t, clk, shared, cells[0], adapter, n, newGroup(1))
			})
			v.pronounce(t)
		})
		return
	}
	t.Run(cells[0].group+"/"+adapter, func(t *testing.T) {
		conclusive(t, repeated, func(n int, clk *clock) verdict {
			g := newGroup(len(cells))
			all := make([]verdict, len(cells))
			var wg sync.WaitGroup
			for i, c := range cells {
				wg.Go(func() {
					all[i] = runCell(t, clk, shared, c, adapter, n, g)
					for f := range all[i].failures {
						all[i].failures[f] = c.name() + ": " + all[i].failures[f]
					}
				})
			}
			wg.Wait()
			var v verdict
			for _, of := range all {
				v.add(of)
			}
			return v
		}).pronounce(t)
	})
}

// pronounce lets t end as the verdict says. In CI nothing may be left out.
func (v verdict) pronounce(t *testing.T) {
	t.Helper()
	for _, failure := range v.failures {
		t.Error(failure)
	}
	switch {
	case v.skipped == "":
	case os.Getenv("CI") != "":
		t.Errorf("not run: %s", v.skipped)
	default:
		t.Skip(v.skipped)
	}
}

// runCell runs one cell for the n-th time, while clk runs.
func runCell(t *testing.T, clk *clock, shared *world, c cell, adapter string, n int, g *group) verdict {
	return try(t, clk, func(a *attempt) {
		s := &scenario{
			TB: a, cell: c, adapter: adapter, ttl: c.on.ttl(), group: g,
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
