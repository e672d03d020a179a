package report

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
)

// CSV writes all groups as one table, with a row for each peer at each work. Times are in
// seconds and sizes in bytes; a cell is empty where nothing was measured. Numbers have four
// significant digits.
func CSV(w io.Writer, groups []*Group) error {
	var units []string
	for _, g := range groups {
		for _, unit := range g.Units {
			if unit != perOp && !slices.Contains(units, unit) { // the inverse of the rate
				units = append(units, unit)
			}
		}
	}
	table := csv.NewWriter(w)
	head := []string{"store", "work", "peer", "samples", "÷ best peer", "÷ best with its client", "÷ raw", "best peer's p50 ÷", "spread"}
	_ = table.Write(append(head, units...)) // Error below
	for _, g := range groups {
		for _, r := range g.Rows {
			_ = table.Write(append(g.figures(r), r.figures(units)...))
		}
	}
	table.Flush()
	return table.Error()
}

// figures returns what the work is, and what compares a row with others.
func (g *Group) figures(r *Row) []string {
	spread := 0.0
	if rates := r.values[g.rate()]; len(rates) > 0 {
		spread = quotient(slices.Max(rates)-slices.Min(rates), r.Figure(g.rate()))
	}
	cells := []string{string(g.Store), g.Name, r.Peer.Name, strconv.Itoa(len(r.values[violations]))}
	for _, v := range []float64{r.ToBest, r.ToOwn, r.ToLimit, r.ToBestP50, spread} {
		cells = append(cells, number(v, v != 0))
	}
	return cells
}

// figures returns the medians of a row.
func (r *Row) figures(units []string) (cells []string) {
	for _, unit := range units {
		cells = append(cells, number(r.Figure(unit), len(r.values[unit]) > 0))
	}
	return cells
}

// number returns a figure with four significant digits, and "" for none.
func number(v float64, known bool) string {
	if !known {
		return ""
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
