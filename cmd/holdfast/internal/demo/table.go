package demo

import (
	"fmt"
	"strings"
)

// outcome is what happened in a round of the terminal, or in a sale of the page.
type outcome struct {
	Buyers  int   `json:"buyers"`
	Items   int   `json:"items"`
	Sold    int   `json:"sold"`
	SoldOut int   `json:"told_sold_out"`
	Stock   int64 `json:"stock"` // at the end, as Redis has it
	Took    ms    `json:"took_ms"`

	tokens []uint64 // of the sales, in their order
	least  int64    // the smallest stock that a buyer saw
}

// oversold returns how many items were sold that did not exist.
func (o outcome) oversold() int { return max(o.Sold-o.Items, 0) }

// result is one row of the table.
type result struct {
	outcome
	round   string
	verdict string
	missed  []string // what was claimed and did not happen
}

// miss records that a claim of the demo did not happen.
func (r *result) miss(format string, args ...any) {
	r.missed = append(r.missed, fmt.Sprintf(format, args...))
}

// table renders the results, one line each. paint decorates the verdicts.
func table(rows []result, paint func(style, string) string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%-17s  %6s  %5s  %5s  %8s  %7s  %s\n", "round", "buyers", "items", "sold", "oversold", "time", "verdict")
	for _, r := range rows {
		verdict := paint(green, r.verdict)
		if len(r.missed) > 0 {
			verdict = paint(red, "FAILED")
		}
		took := fmt.Sprintf("%.2f s", float64(r.Took)/1000)
		fmt.Fprintf(&t, "%-17s  %6d  %5d  %5d  %8d  %7s  %s\n", r.round, r.Buyers, r.Items, r.Sold, r.oversold(), took, verdict)
	}
	return t.String()
}
