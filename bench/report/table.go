package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

// column is one column of a table.
type column struct {
	title string
	text  func(Row) string
}

// Markdown writes a table for each group.
func Markdown(w io.Writer, groups []Group) error {
	for _, g := range groups {
		if _, err := io.WriteString(w, g.markdown()); err != nil {
			return err
		}
	}
	return nil
}

func (g Group) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s (`%s`)\n\n", g.Title, g.Name)
	columns := g.columns()
	for _, c := range columns {
		fmt.Fprintf(&b, "| %s ", c.title)
	}
	b.WriteString("|\n|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, row := range g.Rows {
		for _, c := range columns {
			fmt.Fprintf(&b, "| %s ", row.cell(c))
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n" + g.notes())
	return b.String()
}

// cell returns the text of a cell; a peer that was left out has only its name.
func (r Row) cell(c column) string {
	if r.Cell.Left != "" && c.title != "" {
		return "–"
	}
	return c.text(r)
}

// notes reports what was left out, went wrong or was disturbed.
func (g Group) notes() string {
	var b strings.Builder
	var disturbed []string
	for _, r := range g.Rows {
		if r.Cell.Left != "" {
			fmt.Fprintf(&b, "- %s was left out: %s\n", r.Cell.Peer.Name, r.Cell.Left)
		}
		if n := r.Summary.Violations; n > 0 {
			fmt.Fprintf(&b, "- %s let in %d holders too many, or lost that many locks\n", r.Cell.Peer.Name, n)
		}
		if n := r.Summary.Disturbed; n > 0 {
			disturbed = append(disturbed, fmt.Sprintf("%s (%d of %d)", r.Cell.Peer.Name, n, len(r.Cell.Samples)))
		}
	}
	if disturbed != nil {
		fmt.Fprintf(&b, "- Other programs ran during samples of %s\n", strings.Join(disturbed, ", "))
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

func (g Group) columns() []column {
	w, redis := g.Rows[0].Cell.Work, g.Rows[0].Cell.Peer.Store() == peer.Redis
	columns := []column{{"", func(r Row) string { return r.Cell.Peer.Name }}}
	if w.Kind == work.Keep {
		return append(columns, keepColumns(redis)...)
	}
	columns = append(columns, rateColumns(redis)...)
	if !redis && w.Processes > 1 {
		columns = append(columns, column{"turns/s", func(r Row) string { return count(r.Summary.Turns) }})
	}
	if w.Kind != work.Own && w.Kind != work.All && w.Kind != work.Hear {
		columns = append(columns, fairColumns(w.Processes > 1)...)
	}
	if w.Hold > 0 {
		columns = append(columns,
			column{"dead time p50", func(r Row) string { return span(r.Summary.DeadP50) }},
			column{"p99", func(r Row) string { return span(r.Summary.DeadP99) }},
			column{requests(redis) + "/s", func(r Row) string { return count(r.Summary.CommandsPS) }})
	}
	return append(columns, costColumns(redis)...)
}

// requests is what a server is asked for.
func requests(redis bool) string {
	if redis {
		return "commands"
	}
	return "requests"
}

// rateColumns are fewer where all peers have the same client, and none is bare.
func rateColumns(redis bool) []column {
	columns := []column{
		{"pairs/s", func(r Row) string { return count(r.Summary.Rate) }},
		{"spread", func(r Row) string { return fmt.Sprintf("%.0f %%", 100*r.Summary.Spread) }},
		{"÷ best peer", func(r Row) string { return ratio(r.ToBest) }},
	}
	if !redis {
		return columns
	}
	return append(columns, []column{
		{"÷ best with its client", func(r Row) string { return ratio(r.ToOwn) }},
		{"÷ raw", func(r Row) string { return ratio(r.ToLimit) }},
	}...)
}

func fairColumns(processes bool) []column {
	columns := []column{{"Jain", func(r Row) string { return fmt.Sprintf("%.3f", r.Summary.Jain) }}}
	if processes {
		columns = append(columns, column{"shares of processes", func(r Row) string {
			return fmt.Sprintf("%.2f–%.2f", r.Summary.LeastShare, r.Summary.MostShare)
		}})
	}
	return append(columns, column{"longest wait", func(r Row) string { return span(r.Summary.Longest) }})
}

func costColumns(redis bool) []column {
	columns := []column{{"requests", func(r Row) string { return figure(r.Summary.Commands) }}}
	if redis {
		columns = []column{
			{"Redis commands", columns[0].text},
			{"script calls", func(r Row) string { return figure(r.Summary.Calls) }},
		}
	}
	return append(columns, []column{
		{"server CPU", func(r Row) string { return span(r.Summary.ServerCPU) }},
		{"client CPU", func(r Row) string { return span(r.Summary.ClientCPU) }},
		{"allocs", func(r Row) string { return figure(r.Summary.Allocs) }},
		{"bytes", func(r Row) string { return count(r.Summary.Bytes) }},
	}...)
}

func keepColumns(redis bool) []column {
	title := "requests/s"
	if redis {
		title = "Redis commands/s"
	}
	return []column{
		{"client, of a core", func(r Row) string { return fmt.Sprintf("%.1f %%", 100*r.Summary.Busy) }},
		{title, func(r Row) string { return count(r.Summary.CommandsPS) }},
		{"per name and s", func(r Row) string { return figure(r.Summary.Commands) }},
		{"goroutines per name", func(r Row) string { return fmt.Sprintf("%.3f", r.Summary.Goroutines) }},
		{"bytes per name", func(r Row) string { return count(r.Summary.Memory) }},
		{"least lease left", func(r Row) string {
			if r.Summary.LeastLeft == 0 || r.Summary.LeastLeft >= 1 {
				return "–" // the peer does not tell
			}
			return fmt.Sprintf("%.0f %%", 100*r.Summary.LeastLeft)
		}},
		{"cost ÷ best peer", func(r Row) string { return ratio(Ratio(1, r.ToBest)) }},
	}
}

// count writes a number with three figures: 950, 14.1 k, 1.06 M.
func count(v float64) string {
	switch {
	case v >= 999.5e3:
		return three(v/1e6) + " M"
	case v >= 999.5:
		return three(v/1e3) + " k"
	default:
		return three(v)
	}
}

func three(v float64) string {
	digits := 0
	if v > 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(v))))
	}
	return fmt.Sprintf("%.*f", min(digits, 2), v)
}

func figure(v float64) string {
	if v >= 999.5 {
		return count(v)
	}
	return fmt.Sprintf("%.1f", v)
}

func ratio(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", v)
}

// span writes a duration with three figures.
func span(d time.Duration) string {
	switch {
	case d == 0:
		return "–"
	case d < time.Millisecond:
		return d.Round(100 * time.Nanosecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
