package report

import (
	"slices"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Row is one peer at one work, beside the others.
type Row struct {
	Cell    Cell
	Summary Summary
	ToBest  float64 // rate ÷ that of the best peer; 0 if there is none
	ToOwn   float64 // the same, of the peers with the same client
	ToLimit float64 // rate ÷ that of the bare client
}

// Group is all rows of one work.
type Group struct {
	Title, Name string
	Rows        []Row
	Best        string // the fastest peer; "" if there is none
}

// Groups puts cells together by work, in their order, and compares them.
func Groups(cells []Cell) []Group {
	var groups []Group
	for _, c := range cells {
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == c.Work.Name })
		if i < 0 {
			groups = append(groups, Group{Title: c.Work.Title, Name: c.Work.Name})
			i = len(groups) - 1
		}
		groups[i].Rows = append(groups[i].Rows, Row{Cell: c, Summary: c.Summary()})
	}
	for i := range groups {
		groups[i].compare()
	}
	return groups
}

// compare fills in the ratios.
func (g *Group) compare() {
	best, _ := g.fastest(func(s peer.Spec) bool { return s.Role == peer.Other })
	if best != nil {
		g.Best = best.Cell.Peer.Name
	}
	for i := range g.Rows {
		row := &g.Rows[i]
		client := row.Cell.Peer.Client
		_, all := g.fastest(func(s peer.Spec) bool { return s.Role == peer.Other })
		_, own := g.fastest(func(s peer.Spec) bool { return s.Role == peer.Other && s.Client == client })
		_, limit := g.fastest(func(s peer.Spec) bool { return s.Role == peer.Limit && s.Client == client })
		row.ToBest = Ratio(row.Summary.Rate, all)
		row.ToOwn = Ratio(row.Summary.Rate, own)
		row.ToLimit = Ratio(row.Summary.Rate, limit)
	}
}

// fastest returns the fastest row of those that count and its rate, or nil and 0.
// A peer that failed to exclude does not count.
func (g *Group) fastest(counts func(peer.Spec) bool) (best *Row, rate float64) {
	for i := range g.Rows {
		row := &g.Rows[i]
		if counts(row.Cell.Peer) && row.Summary.Violations == 0 && row.Summary.Rate > rate {
			best, rate = row, row.Summary.Rate
		}
	}
	return best, rate
}
