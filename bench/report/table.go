package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/perf/benchunit"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// column is one column of a table.
type column struct {
	title string
	text  func(*Row) string
}

// Markdown writes a table for each group.
func Markdown(w io.Writer, groups []*Group) error {
	var b strings.Builder
	var store peer.Store
	for _, g := range groups {
		if g.Store != store {
			store = g.Store
			fmt.Fprintf(&b, "## %s\n\nMeasured with %s. Medians of %d samples, which were taken by turns, each in processes of its own.\n\n",
				store, g.How, len(g.Rows[0].values[violations]))
		}
		g.markdown(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (g *Group) markdown(b *strings.Builder) {
	columns := g.columns()
	fmt.Fprintf(b, "### %s (`%s`)\n\n|  |", g.Title(), g.Name)
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.title)
	}
	b.WriteString("\n" + strings.Repeat("|---", len(columns)+1) + "|\n")
	for _, row := range g.Rows {
		fmt.Fprintf(b, "| %s |", row.Peer.Name)
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", c.text(row))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	if notes := g.notes(); notes != nil {
		b.WriteString(strings.Join(notes, "\n") + "\n\n")
	}
}

// notes reports what went wrong or was disturbed.
func (g *Group) notes() (notes []string) {
	var busy []string
	for _, r := range g.Rows {
		if n := r.Violations(); n > 0 {
			notes = append(notes, fmt.Sprintf("- %s let in %d holders too many, or lost that many locks", r.Peer.Name, n))
		}
		cores := r.values[foreign]
		if n := len(slices.DeleteFunc(slices.Clone(cores), func(v float64) bool { return v <= disturbance })); n > 0 {
			busy = append(busy, fmt.Sprintf("%s (%d of %d)", r.Peer.Name, n, len(cores)))
		}
	}
	if busy != nil {
		notes = append(notes, "- Other programs ran during samples of "+strings.Join(busy, ", "))
	}
	return notes
}

// columns returns the columns: the ratios beside what is divided, and a column for each
// unit as benchstat names it.
func (g *Group) columns() (columns []column) {
	for _, unit := range g.Units {
		switch unit {
		case perOp, violations, foreign: // the inverse of the rate; the others are notes
			continue
		}
		columns = append(columns, column{unit, func(r *Row) string { return r.text(unit) }})
		switch unit {
		case g.rate():
			columns = append(columns, column{"spread", func(r *Row) string { return r.spread(unit) }})
			columns = g.ratio(columns, "÷ best peer", func(r *Row) float64 { return r.ToBest })
			if g.Store == peer.Redis { // elsewhere all peers have the same client
				columns = g.ratio(columns, "÷ best with its client", func(r *Row) float64 { return r.ToOwn })
			}
			columns = g.ratio(columns, "÷ raw", func(r *Row) float64 { return r.ToLimit })
		case p50:
			columns = g.ratio(columns, "best peer's p50 ÷", func(r *Row) float64 { return r.ToBestP50 })
		}
	}
	return columns
}

// ratio appends a column of ratios, if there are any.
func (g *Group) ratio(columns []column, title string, of func(*Row) float64) []column {
	if !slices.ContainsFunc(g.Rows, func(r *Row) bool { return of(r) != 0 }) {
		return columns
	}
	return append(columns, column{title, func(r *Row) string {
		if of(r) == 0 {
			return "–"
		}
		return fmt.Sprintf("%.2f", of(r))
	}})
}

// text returns a figure as benchstat writes it, but for parts of one.
func (r *Row) text(unit string) string {
	v := r.Figure(unit)
	text := benchunit.Scale(v, benchunit.Decimal)
	switch {
	case len(r.values[unit]) == 0:
		return "–"
	case strings.Contains(unit, "sec"):
		return text + "s"
	case v < 1:
		return fmt.Sprintf("%.3f", v)
	}
	return text
}

// spread returns the distance from the smallest to the largest value, in percent of the
// median.
func (r *Row) spread(unit string) string {
	values, median := r.values[unit], r.Figure(unit)
	if median == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f%%", 100*(slices.Max(values)-slices.Min(values))/median)
}
