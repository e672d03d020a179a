package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/perf/benchfmt"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFigure(t *testing.T) {
	for _, test := range []struct {
		unit   string
		values []float64
		want   float64
		text   string
		spread string
	}{
		{pairRate, nil, 0, "–", "–"},
		{pairRate, []float64{7}, 7, "7.000", "0%"},
		{pairRate, []float64{30e3, 10e3, 20e3}, 20e3, "20.00k", "100%"},
		{pairRate, []float64{4, 1, 3, 2}, 2.5, "2.500", "120%"},
		{pairRate, []float64{0, 0}, 0, "0.000", "–"},
		{"jain", []float64{0.9996}, 0.9996, "1.000", "0%"},
		{p50, []float64{191e-6, 200e-6, 190e-6}, 191e-6, "191.0µs", "5%"},
		{longest, []float64{3, 9, 4}, 9, "9.000s", "67%"},
		{leastLeft, []float64{0.7, 0.6, 0.8}, 0.6, "0.600", "33%"},
	} {
		r := &Row{values: map[string][]float64{test.unit: test.values}}
		if got := r.Figure(test.unit); got != test.want {
			t.Errorf("%s of %v: got %v, want %v", test.unit, test.values, got, test.want)
		}
		if text, spread := r.text(test.unit), r.spread(test.unit); text != test.text || spread != test.spread {
			t.Errorf("%s of %v: got %s and a spread of %s, want %s and %s", test.unit, test.values, text, spread, test.text, test.spread)
		}
	}
}

func TestJain(t *testing.T) {
	for _, test := range []struct {
		shares []int64
		want   float64
	}{
		{nil, 1},
		{[]int64{0, 0}, 1},
		{[]int64{5, 5, 5}, 1},
		{[]int64{9, 0, 0}, 1. / 3},
		{[]int64{1, 2, 3}, 36. / 42},
	} {
		if got := Jain(test.shares); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%v: got %v, want %v", test.shares, got, test.want)
		}
	}
}

// cell has samples of a second with so many pairs each.
func cell(name, client string, role peer.Role, pairs ...int64) Cell {
	c := Cell{
		Work: work.Work{Name: "w", Title: "the work", Kind: work.One, Processes: 1},
		Peer: peer.Spec{Name: name, Client: client, Role: role},
	}
	for _, n := range pairs {
		s := Sample{Shares: []int64{n}, Commands: 6 * n, Calls: 2 * n, ServerCPU: time.Duration(n) * 10}
		s.Pairs, s.Each, s.Elapsed = n, []int64{n / 2, n / 2}, time.Second
		s.CPU, s.Allocs, s.Bytes = time.Duration(n)*20, uint64(8*n), uint64(600*n)
		c.Samples = append(c.Samples, s)
	}
	return c
}

// grouped puts cells into a group of their own.
func grouped(cells ...Cell) *Group {
	g := &Group{Store: peer.Redis, Name: "w"}
	for _, c := range cells {
		for _, s := range c.Samples {
			g.add(c.Peer, c.Result(s).Values)
		}
	}
	g.compare()
	return g
}

// check compares values of a sample by unit; NaN stands for a unit that is not there.
func check(t *testing.T, r *benchfmt.Result, want map[string]float64) {
	t.Helper()
	for unit, want := range want {
		got, ok := r.Value(unit)
		if ok == math.IsNaN(want) || ok && math.Abs(got-want) > 1e-9 {
			t.Errorf("got %v %s, %v, want %v", got, unit, ok, want)
		}
	}
}

func TestResult(t *testing.T) {
	c := cell("a", "x", peer.Ours, 200)
	s := c.Samples[0]
	s.Violations, s.Foreign, s.Longest, s.Turns = 2, 0.5, time.Minute, 50
	s.Latency, s.Dead = work.NewLatencies(), work.NewLatencies()
	for i := range 100 {
		s.Latency.Add(time.Duration(i+1) * time.Second)
	}
	none := math.NaN()
	check(t, c.Result(s), map[string]float64{
		perOp: 0.005, pairRate: 200, "commands/op": 6, "calls/op": 2, "allocs/op": 8, "B/op": 600,
		"server-sec/op": 10e-9, "client-sec/op": 20e-9, "jain": 1, longest: 60, violations: 2, foreign: 0.5,
		"turns/s": none, "least-share": none, "dead-p50-sec": none, "commands/s": none,
	})
	for unit, want := range map[string]float64{p50: 50, "p99-sec": 99} {
		if got, _ := c.Result(s).Value(unit); math.Abs(got-want) > want/500 {
			t.Errorf("got %v %s, want %v", got, unit, want)
		}
	}
	c.Work.Processes, s.Shares, s.Latency = 2, []int64{50, 150}, nil
	s.Dead.Add(time.Millisecond)
	check(t, c.Result(s), map[string]float64{"turns/s": 50, "least-share": 0.5, "most-share": 1.5, p50: none, "commands/s": 1200})
	c.Work.Kind, c.Peer.Client = work.Own, "etcd"
	check(t, c.Result(s), map[string]float64{"calls/op": none, "jain": none, longest: none})
	check(t, c.Result(Sample{Result: work.Result{Elapsed: time.Second}}), map[string]float64{pairRate: 0, perOp: none, "allocs/op": none})
}

func TestResultOfKeptNames(t *testing.T) {
	c := Cell{Work: work.Work{Name: "keep", Kind: work.Keep}}
	s := Sample{Commands: 6000}
	s.Kept, s.Elapsed, s.CPU, s.Goroutines, s.Memory, s.LeastLeft = 1000, 2*time.Second, time.Second, 0.1, 700, 0.6
	check(t, c.Result(s), map[string]float64{
		keptRate: 2000, "client-cores": 0.5, "commands/s": 3000, "commands/name-s": 3, "goroutines/name": 0.1, "B/name": 700, leastLeft: 0.6,
	})
	s.LeastLeft = 1
	check(t, c.Result(s), map[string]float64{leastLeft: math.NaN()})
}

func TestRatios(t *testing.T) {
	quick := func(c Cell, d time.Duration) Cell {
		c.Samples[0].Latency = work.NewLatencies()
		c.Samples[0].Latency.Add(d)
		return c
	}
	g := grouped(
		quick(cell("ours", "x", peer.Ours, 300), 400),
		quick(cell("same client", "x", peer.Other, 100), 200),
		quick(cell("other client", "y", peer.Other, 200), 1000),
		quick(unsafe(cell("does not exclude", "x", peer.Other, 9000)), 1),
		cell("bare", "x", peer.Limit, 600),
	)
	if r := g.Rows[0]; r.ToBest != 1.5 || r.ToOwn != 3 || r.ToLimit != 0.5 || math.Abs(r.ToBestP50-0.5) > 1e-9 {
		t.Errorf("got %v, %v, %v and %v, want 1.5, 3, 0.5 and 0.5", r.ToBest, r.ToOwn, r.ToLimit, r.ToBestP50)
	}
	if alone := grouped(cell("ours", "x", peer.Ours, 300)).Rows[0]; alone.ToBest != 0 || alone.ToLimit != 0 || alone.ToBestP50 != 0 {
		t.Errorf("got ratios to nobody: %+v", alone)
	}
}

func unsafe(c Cell) Cell {
	c.Samples[0].Violations = 1
	return c
}

func TestMarkdown(t *testing.T) {
	busy := cell("busy", "x", peer.Other, 5, 5)
	busy.Samples[1].Foreign = 1
	other := cell("other", "etcd", peer.Other, 4700)
	g := grouped(busy, cell("ours", "x", peer.Ours, 14100), unsafe(cell("bad", "x", peer.Other, 10)), other)
	elsewhere := grouped(cell("ours", "zk", peer.Ours, 300), cell("theirs", "zk", peer.Other, 300))
	elsewhere.Store = peer.ZooKeeper
	var b strings.Builder
	if err := Markdown(&b, []*Group{g, elsewhere}); err != nil {
		t.Fatal(err)
	}
	here, there, _ := strings.Cut(b.String(), "## zookeeper\n")
	for _, want := range []string{
		"## redis\n", "### w (`w`)", "|  | pairs/s | spread | ÷ best peer | ÷ best with its client |",
		"| ours | 14.10k | 0% | 3.00 | 2820.00 |", "| other | 4.700k | 0% | 1.00 | 1.00 | 1.000 | 0.000s | 6.000 | – |",
		"- bad let in 1 holders too many", "- Other programs ran during samples of busy (1 of 2)",
	} {
		if !strings.Contains(here, want) {
			t.Errorf("there is no %q in\n%s", want, here)
		}
	}
	if want := "|  | pairs/s | spread | ÷ best peer | jain |"; !strings.Contains(there, want) || strings.Contains(there, "calls/op") {
		t.Errorf("there is no %q in\n%s", want, there)
	}
	width := 0
	for line := range strings.Lines(here) {
		if n := strings.Count(line, "|"); strings.HasPrefix(line, "|") {
			if width != 0 && n != width {
				t.Errorf("%q has %d bars, the others %d", line, n, width)
			}
			width = n
		}
	}
}

// elements returns the elements with a name in a document of XML.
func elements(t *testing.T, document, name string) (found []xml.StartElement) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(document))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == name {
			found = append(found, e.Copy())
		}
	}
}

func TestSVG(t *testing.T) {
	kept := cell("kept", "x", peer.Ours, 5)
	kept.Work = work.Work{Name: "k", Title: "kept names", Kind: work.Keep}
	kept.Samples[0].CPU, kept.Samples[0].Kept = time.Second, 9
	keeps := grouped(kept)
	keeps.Name = "kept names"
	var b strings.Builder
	if err := SVG(&b, []*Group{grouped(cell("a<b", "x", peer.Ours, 1000), cell("c", "x", peer.Limit, 10)), keeps}); err != nil {
		t.Fatal(err)
	}
	bars := len(elements(t, b.String(), "rect"))
	if bars != 3 { // the background and two bars
		t.Errorf("got %d rectangles, want 3", bars)
	}
	if strings.Contains(b.String(), "kept names") {
		t.Error("names that are kept have no rate to show")
	}
	if err := SVG(io.Discard, nil); err != nil {
		t.Error(err)
	}
}

func TestCurves(t *testing.T) {
	var groups []*Group
	for i, n := range []string{"10", "1000"} {
		g := grouped(cell("a<b", "x", peer.Ours, int64(1000+i)), cell("c", "x", peer.Other, int64(10+i)))
		g.Name = work.ScalePrefix + work.Names + "-" + n
		groups = append(groups, g)
	}
	groups = append(groups, grouped(cell("no scale", "x", peer.Ours, 5)))
	var b strings.Builder
	if err := Curves(&b, groups); err != nil {
		t.Fatal(err)
	}
	var curves []string
	for _, e := range elements(t, b.String(), "polyline") {
		curves = append(curves, e.Attr[0].Value)
	}
	if len(curves) != 2 || !strings.HasPrefix(curves[0], "60.0,") || !strings.Contains(curves[0], " 390.0,") {
		t.Errorf("got the curves %q, want one for each peer, from the left to the right", curves)
	}
	if strings.Contains(b.String(), "no scale") || strings.Count(b.String(), "font-weight") != 1 {
		t.Error("want the one picture of which something was measured")
	}
	if err := Curves(io.Discard, nil); err != nil {
		t.Error(err)
	}
}
