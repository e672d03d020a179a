package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

// panel is one picture of the curves: how a figure depends on the number that grows in a series.
type panel struct {
	series, unit, title string
	least               float64 // values below it are drawn at it, because the scale has no 0
}

func panels() []panel {
	return []panel{
		{work.Held, cores, "names held: cores of the client that renew them", 0.01},
		{work.Held, "B/name", "names held: bytes of memory for each", 1},
		{work.Waiters, pairRate, "waiters for one name: locks per second", 1},
		{work.Waiters, commands, "waiters for one name: commands of the server for each lock", 0.1},
		{work.Processes, pairRate, "processes, 16 names: locks per second", 1},
		{work.Processes, accepted, "processes, 16 names: new connections per second", 1},
		{work.Names, pairRate, "names that 16 goroutines want: locks per second", 1},
		{work.Bytes, pairRate, "bytes in a name: locks per second", 1},
	}
}

// Sizes in pixels.
const (
	panelWidth, panelHeight = 500, 250
	plotWidth, plotHeight   = 330, 170
	plotLeft, plotTop       = 60, 30
)

const curvesSVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#fff"/>
{{range .Panels}}<g transform="translate({{.X}} {{.Y}})"><text y="18" x="8" font-weight="bold">{{html .Title}}</text>
{{range .Across}}<path d="M{{$.Left}} {{.At}}H{{$.Right}}" stroke="#ddd"/><text x="{{$.Left}}" y="{{.At}}" dx="-6" dy="4" text-anchor="end" fill="#555">{{.Text}}</text>
{{end}}{{range .Down}}<path d="M{{.At}} {{$.Top}}V{{$.Bottom}}" stroke="#eee"/><text x="{{.At}}" y="{{$.Bottom}}" dy="14" text-anchor="middle" fill="#555">{{.Text}}</text>
{{end}}{{range .Curves}}<polyline points="{{.Points}}" fill="none" stroke="{{.Colour}}" stroke-width="{{.Stroke}}"/>` +
	`<text x="{{$.Right}}" y="{{.LabelY}}" dx="4" dy="4" fill="{{.Colour}}">{{html .Name}}</text>
{{end}}</g>
{{end}}</svg>
`

type curvesPlot struct {
	Width, Height            int
	Left, Right, Top, Bottom int // of the plot in each panel
	Panels                   []curvesPanel
}

type curvesPanel struct {
	X, Y         int
	Title        string
	Across, Down []tick
	Curves       []curve
}

type tick struct {
	At   float64
	Text string
}

type curve struct {
	Name, Colour, Points string
	Stroke               float64
	LabelY               float64
	last                 float64 // the height of the last point
}

// point is a figure at one number of a series.
type point struct{ n, value float64 }

// Curves writes a plot of the works of work.Scale: a picture for each panel, with a curve for each
// peer, both scales logarithmic. Panels of which nothing was measured are left out.
func Curves(w io.Writer, groups []*Group) error {
	plot := curvesPlot{
		Width: 2 * panelWidth,
		Left:  plotLeft, Right: plotLeft + plotWidth, Top: plotTop, Bottom: plotTop + plotHeight,
	}
	for _, p := range panels() {
		if drawn, ok := p.draw(groups); ok {
			n := len(plot.Panels)
			drawn.X, drawn.Y = n%2*panelWidth, n/2*panelHeight
			plot.Panels = append(plot.Panels, drawn)
		}
	}
	plot.Height = (len(plot.Panels) + 1) / 2 * panelHeight
	return template.Must(template.New("curves").Parse(curvesSVG)).Execute(w, plot)
}

// points returns the points of a panel for each peer, in the order of the groups.
func (p panel) points(groups []*Group) (names []string, byPeer map[string][]point, roles map[string]peer.Role) {
	byPeer, roles = map[string][]point{}, map[string]peer.Role{}
	for _, g := range groups {
		number, ok := strings.CutPrefix(g.Name, work.ScalePrefix+p.series+"-")
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		for _, r := range g.Rows {
			if len(r.values[p.unit]) == 0 {
				continue
			}
			name := r.Peer.Name
			if byPeer[name] == nil {
				names, roles[name] = append(names, name), r.Peer.Role
			}
			byPeer[name] = append(byPeer[name], point{n, max(p.least, r.Figure(p.unit))})
		}
	}
	return names, byPeer, roles
}

// draw returns the picture of a panel, and false if nothing was measured.
func (p panel) draw(groups []*Group) (curvesPanel, bool) {
	names, byPeer, roles := p.points(groups)
	if len(names) == 0 {
		return curvesPanel{}, false
	}
	var all []point
	for _, name := range names {
		all = append(all, byPeer[name]...)
	}
	x := newAxis(all, func(p point) float64 { return p.n }, plotLeft, plotLeft+plotWidth)
	y := newAxis(all, func(p point) float64 { return p.value }, plotTop+plotHeight, plotTop)
	drawn := curvesPanel{Title: p.title, Across: y.ticks(), Down: x.ticks()}
	ours, theirs := []string{"#1f6f54", "#4fb58a"}, []string{"#b0522e", "#4a6fa5", "#8a6d1f", "#7b4b94", "#5a5a5a"}
	nextOfOurs, nextOfTheirs := 0, 0
	for _, name := range names {
		c := curve{Name: name}
		if roles[name] == peer.Ours {
			c.Colour, c.Stroke = ours[nextOfOurs%len(ours)], 2
			nextOfOurs++
		} else {
			c.Colour, c.Stroke = theirs[nextOfTheirs%len(theirs)], 1.2
			nextOfTheirs++
		}
		var points []string
		for _, at := range byPeer[name] {
			c.last = y.at(at.value)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(at.n), c.last))
		}
		c.Points = strings.Join(points, " ")
		drawn.Curves = append(drawn.Curves, c)
	}
	spread(drawn.Curves)
	return drawn, true
}

// spread moves the labels of curves that end close to each other apart.
func spread(curves []curve) {
	order := make([]int, len(curves))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, curves[a].last-curves[b].last)) })
	lowest := math.Inf(-1)
	for _, i := range order {
		curves[i].LabelY = max(curves[i].last, lowest+12)
		lowest = curves[i].LabelY
	}
}

// axis is a logarithmic scale from the powers of ten around all values.
type axis struct{ low, high, from, to float64 }

func newAxis(all []point, of func(point) float64, from, to float64) axis {
	a := axis{low: math.Inf(1), high: math.Inf(-1), from: from, to: to}
	for _, p := range all {
		a.low, a.high = min(a.low, math.Floor(math.Log10(of(p)))), max(a.high, math.Ceil(math.Log10(of(p))))
	}
	if a.low >= a.high {
		a.high = a.low + 1
	}
	return a
}

func (a axis) at(value float64) float64 {
	return a.from + (a.to-a.from)*(math.Log10(value)-a.low)/(a.high-a.low)
}

// ticks returns the powers of ten.
func (a axis) ticks() (ticks []tick) {
	for decade := a.low; decade <= a.high; decade++ {
		value := math.Pow(10, decade)
		ticks = append(ticks, tick{math.Round(10*a.at(value)) / 10, strconv.FormatFloat(value, 'f', -1, 64)})
	}
	return ticks
}
