package demo

import (
	"fmt"
	"strings"
	"time"
)

// outcome is what happened in a round.
type outcome struct {
	buyers, items int
	sold, soldOut int      // what buyers were told
	tokens        []uint64 // of the sales, in their order
	least         int64    // the smallest stock that a buyer saw
	stock         int64    // what is left in Redis
	took          time.Duration
}

// oversold returns how many items were sold that did not exist.
func (o outcome) oversold() int { return max(o.sold-o.items, 0) }

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
		took := fmt.Sprintf("%.2f s", r.took.Seconds())
		fmt.Fprintf(&t, "%-17s  %6d  %5d  %5d  %8d  %7s  %s\n", r.round, r.buyers, r.items, r.sold, r.oversold(), took, verdict)
	}
	return t.String()
}
