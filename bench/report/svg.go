package report

import (
	"io"
	"math"
	"text/template"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// svg is the plot; a bar and its texts are where their group is.
const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 770 {{.Height}}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#fff"/>
<text x="170" y="16" fill="#555">lock and unlock pairs per second, logarithmic: each line is ten times the one before</text>
{{range .Lines}}<path d="M{{.}} 24V{{$.Height}}" stroke="#ddd"/>
{{end}}{{range .Titles}}<text x="8" y="{{.Y}}" font-weight="bold">{{html .Text}}</text>
{{end}}{{range .Bars}}<g transform="translate(170 {{.Y}})"><text x="-6" y="10" text-anchor="end">{{html .Text}}</text>` +
	`<rect width="{{.Width}}" height="12" fill="{{.Colour}}"/><text x="{{.Width}}" dx="4" y="10" fill="#555">{{.Rate}}</text></g>
{{end}}</svg>
`

// plot is what the template shows, in pixels.
type plot struct {
	Lines        []float64
	Titles, Bars []mark
	Height       int
}

// mark is a title, or a bar with its text.
type mark struct {
	Y            int
	Text         string
	Width        float64
	Rate, Colour string
}

// SVG writes a plot of the rates: a bar for each peer, works below each other, on a
// logarithmic scale. No library that draws one is as small. Works that have no rate are
// left out.
func SVG(w io.Writer, groups []*Group) error {
	low, high := decades(groups)
	x := func(decade float64) float64 { return math.Round(520 * (decade - low) / (high - low)) }
	p := plot{Height: 26}
	for d := low; d <= high; d++ {
		p.Lines = append(p.Lines, 170+x(d))
	}
	for _, g := range groups {
		if g.rate() != pairRate {
			continue
		}
		p.Titles = append(p.Titles, mark{Y: p.Height + 24, Text: g.Title()})
		p.Height += 30
		for _, r := range g.Rows {
			if v := r.Figure(pairRate); v > 0 {
				p.Bars = append(p.Bars, mark{p.Height, r.Peer.Name, max(1, x(math.Log10(v))), r.text(pairRate), colour(r.Peer.Role)})
				p.Height += 14
			}
		}
	}
	return template.Must(template.New("svg").Parse(svg)).Execute(w, p)
}

// decades returns the powers of ten between which all rates are.
func decades(groups []*Group) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, g := range groups {
		for _, r := range g.Rows {
			if v := r.Figure(pairRate); v > 0 {
				low, high = min(low, math.Floor(math.Log10(v))), max(high, math.Ceil(math.Log10(v)))
			}
		}
	}
	if low >= high { // nothing, or one exact power of ten
		return 0, 1
	}
	return low, high
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
