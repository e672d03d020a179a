package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

// Sizes of the plot, in pixels.
const (
	barHeight  = 12
	barGap     = 2
	groupGap   = 30
	labelWidth = 170
	plotWidth  = 520
	valueWidth = 80
	headHeight = 26
)

// SVG writes a plot of the rates: a bar for each peer, works below each other, on
// a logarithmic scale. Works that have no rate are left out.
func SVG(w io.Writer, groups []Group) error {
	var shown []Group
	for _, g := range groups {
		if len(g.Rows) > 0 && g.Rows[0].Cell.Work.Kind != work.Keep {
			shown = append(shown, g)
		}
	}
	p := newPlot(shown)
	for _, g := range shown {
		p.group(g)
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="%d" y="16" fill="#555">lock and unlock pairs per second, logarithmic: each line is ten times the one before</text>
%s</svg>
`, labelWidth+plotWidth+valueWidth, p.y, labelWidth, p.b.String())
	return err
}

// plot is a plot that grows downwards.
type plot struct {
	b         strings.Builder
	y         int
	low, high float64 // decades
}

func newPlot(groups []Group) *plot {
	p := &plot{y: headHeight, low: math.Inf(1), high: math.Inf(-1)}
	for _, g := range groups {
		for _, r := range g.Rows {
			if v := r.Summary.Rate; v > 0 {
				p.low = min(p.low, math.Floor(math.Log10(v)))
				p.high = max(p.high, math.Ceil(math.Log10(v)))
			}
		}
	}
	if p.low >= p.high { // nothing, or one exact power of ten
		p.low, p.high = 0, 1
	}
	return p
}

// x returns where a rate lies.
func (p *plot) x(v float64) float64 {
	return labelWidth + plotWidth*(math.Log10(v)-p.low)/(p.high-p.low)
}

func (p *plot) group(g Group) {
	p.y += groupGap
	fmt.Fprintf(&p.b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", 8, p.y-6, html.EscapeString(g.Title))
	height := len(g.Rows) * (barHeight + barGap)
	for d := p.low; d <= p.high; d++ {
		x := p.x(math.Pow(10, d))
		fmt.Fprintf(&p.b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/>`+"\n", x, x, p.y, p.y+height)
	}
	for _, r := range g.Rows {
		p.bar(r)
	}
}

func (p *plot) bar(r Row) {
	fmt.Fprintf(&p.b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
		labelWidth-6, p.y+barHeight-2, html.EscapeString(r.Cell.Peer.Name))
	if v := r.Summary.Rate; v > 0 {
		end := p.x(v)
		fmt.Fprintf(&p.b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n",
			labelWidth, p.y, max(1, end-labelWidth), barHeight, colour(r.Cell.Peer.Role))
		fmt.Fprintf(&p.b, `<text x="%.1f" y="%d" fill="#555">%s</text>`+"\n", end+4, p.y+barHeight-2, count(v))
	}
	p.y += barHeight + barGap
}

func colour(role peer.Role) string {
	switch role {
	case peer.Ours:
		return "#1f6f54"
	case peer.Limit:
		return "#c9c9c9"
	default:
		return "#7a93b8"
	}
}
