package report

import (
	"slices"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

// Row is one peer at one work, beside the others.
type Row struct {
	Peer peer.Spec

	ToBest    float64 // rate ÷ that of the best peer; 0 if there is none
	ToOwn     float64 // the same, of the peers with the same client
	ToLimit   float64 // rate ÷ that of the bare client
	ToBestP50 float64 // the lowest median of the latencies of a peer ÷ the own

	values map[string][]float64 // of the samples, by unit
}

// Figure returns the median of a value over all samples, and 0 if it was not measured.
// Of waits it returns the longest, and of what is left of a lease the least.
func (r *Row) Figure(unit string) float64 {
	values := r.values[unit]
	switch {
	case len(values) == 0:
		return 0
	case unit == longest:
		return slices.Max(values)
	case unit == leastLeft:
		return slices.Min(values)
	}
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, 1-sample.Thresholds.CompareAlpha).Center
}

// Violations returns how often there were too many holders, and locks lost, in all samples.
func (r *Row) Violations() (sum int64) {
	for _, v := range r.values[violations] {
		sum += int64(v)
	}
	return sum
}

// Group is all rows of one work.
type Group struct {
	Store peer.Store
	Name  string
	How   string // it was measured: with what, and what ran where
	Rows  []*Row
	Units []string // of all rows
}

// Title returns what the work is, in words.
func (g *Group) Title() string {
	list := append(work.List(), work.Scale()...)
	if g.Store != peer.Redis {
		list = work.Stores()
	}
	for _, w := range list {
		if w.Name == g.Name {
			return w.Title
		}
	}
	return g.Name
}

// add adds a sample of a peer.
func (g *Group) add(p peer.Spec, values []benchfmt.Value) {
	i := slices.IndexFunc(g.Rows, func(r *Row) bool { return r.Peer.Name == p.Name })
	if i < 0 {
		i, g.Rows = len(g.Rows), append(g.Rows, &Row{Peer: p, values: map[string][]float64{}})
	}
	for _, v := range values {
		g.Rows[i].values[v.Unit] = append(g.Rows[i].values[v.Unit], v.Value)
		if !slices.Contains(g.Units, v.Unit) {
			g.Units = append(g.Units, v.Unit)
		}
	}
}

// rate returns the unit of what the work is about.
func (g *Group) rate() string {
	if slices.Contains(g.Units, keptRate) {
		return keptRate
	}
	return pairRate
}

// compare fills in the ratios. Benchstat has none to the best of many.
func (g *Group) compare() {
	rate := func(r *Row) float64 { return r.Figure(g.rate()) }
	speed := func(r *Row) float64 { return quotient(1, r.Figure(p50)) }
	for _, row := range g.Rows {
		other := func(p peer.Spec) bool { return p.Role == peer.Other }
		own := func(p peer.Spec) bool { return other(p) && p.Client == row.Peer.Client }
		bare := func(p peer.Spec) bool { return p.Role == peer.Limit && p.Client == row.Peer.Client }
		row.ToBest = g.against(row, rate, other)
		row.ToOwn = g.against(row, rate, own)
		row.ToLimit = g.against(row, rate, bare)
		row.ToBestP50 = g.against(row, speed, other)
	}
}

// against returns the value of a row ÷ the highest of those that count, or 0 without one.
// A peer that failed to exclude does not count.
func (g *Group) against(row *Row, value func(*Row) float64, counts func(peer.Spec) bool) float64 {
	best := 0.0
	for _, r := range g.Rows {
		if counts(r.Peer) && r.Violations() == 0 {
			best = max(best, value(r))
		}
	}
	return quotient(value(row), best)
}

// quotient returns a ÷ b, or 0 if b is 0: there is nothing to compare with.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
