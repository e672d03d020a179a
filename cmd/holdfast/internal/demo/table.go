package demo

import (
	"fmt"
	"strings"
	"time"
)

// result is one row of the table, with the claims that were not met.
type result struct {
	round               string
	buyers, items, sold int
	took                time.Duration
	verdict             string
	missed              []string // what was claimed and did not happen
}

// oversold returns how many items were sold that did not exist.
func (r result) oversold() int { return max(r.sold-r.items, 0) }

// miss records that a claim of the demo did not happen.
func (r *result) miss(format string, args ...any) {
	r.missed = append(r.missed, fmt.Sprintf(format, args...))
}

// table renders the results, one line each. paint decorates the verdicts.
func table(rows []result, paint func(style, string) string) string {
	width := len("round")
	for _, r := range rows {
		width = max(width, len(r.round))
	}
	var t strings.Builder
	fmt.Fprintf(&t, "%-*s  %6s  %5s  %5s  %8s  %7s  %s\n", width, "round", "buyers", "items", "sold", "oversold", "time", "verdict")
	for _, r := range rows {
		verdict := paint(green, r.verdict)
		if len(r.missed) > 0 {
			verdict = paint(red, "FAILED")
		}
		took := fmt.Sprintf("%.2f s", r.took.Seconds())
		fmt.Fprintf(&t, "%-*s  %6d  %5d  %5d  %8d  %7s  %s\n", width, r.round, r.buyers, r.items, r.sold, r.oversold(), took, verdict)
	}
	return t.String()
}
