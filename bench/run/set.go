package run

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/work"
)

// Set says what is measured, and how well.
type Set struct {
	Works   []work.Work
	Peers   []peer.Spec
	Warm    time.Duration
	Stretch float64 // how much longer a sample is than in the short set
	Repeats int     // samples of each cell
	Retries int     // how often a disturbed sample is taken again
}

// Short returns the set that takes less than 10 minutes.
func Short() Set {
	return choose(Set{Warm: 200 * time.Millisecond, Stretch: 1, Repeats: 3, Retries: 1}, false)
}

// Full returns the set of everything, with longer samples.
func Full() Set {
	return choose(Set{Warm: time.Second, Stretch: 4, Repeats: 5, Retries: 3}, true)
}

// Stores returns the set for a store other than Redis, beside what its users use today.
func Stores(store peer.Store) Set {
	s := Set{Works: work.Stores(), Warm: 300 * time.Millisecond, Stretch: 1, Repeats: 3, Retries: 1}
	for _, p := range peer.OtherSpecs() {
		if p.Store() == store {
			s.Peers = append(s.Peers, p)
		}
	}
	return s
}

// Scale returns the set in which one number grows, for curves.
func Scale() Set {
	s := Set{Works: work.Scale(), Warm: 300 * time.Millisecond, Stretch: 1, Repeats: 3, Retries: 1}
	for _, p := range peer.Specs() {
		if work.ScalePeer(p) {
			s.Peers = append(s.Peers, p)
		}
	}
	return s
}

func choose(s Set, full bool) Set {
	for _, w := range work.List() {
		if full || w.Short {
			s.Works = append(s.Works, w)
		}
	}
	for _, p := range peer.Specs() {
		if full || !p.Full {
			s.Peers = append(s.Peers, p)
		}
	}
	return s
}

// Measure takes all samples of a set: those of one work by turns, so that what
// changes on the machine changes for all.
func (r *Runner) Measure(ctx context.Context, s Set) ([]report.Cell, error) {
	var cells []report.Cell
	for _, w := range s.Works {
		group := r.group(w, s.Peers)
		for range s.Repeats {
			for i := range group {
				r.repeat(ctx, &group[i], s)
				if err := ctx.Err(); err != nil {
					return cells, err
				}
			}
		}
		cells = append(cells, group...)
		if err := report.Write(r.Log, r.Stores[0], r.Pinned(), group); err != nil {
			return cells, err
		}
	}
	return cells, nil
}

// group makes the cells of one work.
func (r *Runner) group(w work.Work, peers []peer.Spec) []report.Cell {
	var group []report.Cell
	for _, p := range peers {
		if !w.Suits(p) {
			continue
		}
		cell := report.Cell{Work: w, Peer: p}
		if r.servers[p.Store()] == nil {
			cell.Left = fmt.Sprintf("there is no %s; .ci/%s builds one", p.Store(), p.Store())
		}
		group = append(group, cell)
	}
	return group
}

// repeat takes one more sample of a cell. Of disturbed ones it keeps the one that
// was disturbed least.
func (r *Runner) repeat(ctx context.Context, c *report.Cell, s Set) {
	if c.Left != "" {
		return
	}
	size := Size{Warm: s.Warm, Sample: time.Duration(float64(c.Work.Sample) * s.Stretch)}
	var kept report.Sample
	for try := 0; try <= s.Retries; try++ {
		sample, err := r.Sample(ctx, c.Work, c.Peer, size)
		if err != nil {
			c.Left = err.Error()
			fmt.Fprintf(r.Log, "%s, %s: %v\n", c.Work.Name, c.Peer.Name, err)
			return
		}
		if try == 0 || sample.Foreign < kept.Foreign {
			kept = sample
		}
		if !kept.Disturbed() {
			break
		}
	}
	c.Samples = append(c.Samples, kept)
}
