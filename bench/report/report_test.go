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

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMedianAndSpread(t *testing.T) {
	for _, test := range []struct {
		values         []float64
		median, spread float64
	}{
		{nil, 0, 0},
		{[]float64{7}, 7, 0},
		{[]float64{30, 10, 20}, 20, 1},
		{[]float64{4, 1, 3, 2}, 2.5, 1.2},
		{[]float64{0, 0}, 0, 0},
	} {
		if got := Median(test.values); got != test.median {
			t.Errorf("%v: got median %v, want %v", test.values, got, test.median)
		}
		if got := Spread(test.values); math.Abs(got-test.spread) > 1e-9 {
			t.Errorf("%v: got spread %v, want %v", test.values, got, test.spread)
		}
	}
}

func TestMedianLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	Median(values)
	if values[0] != 3 || values[2] != 2 {
		t.Fatalf("got %v, want it as it was", values)
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

func TestPercentile(t *testing.T) {
	var values []time.Duration
	if got := Percentile(values, 0.5); got != 0 {
		t.Errorf("got %v of nothing, want 0", got)
	}
	for i := 100; i >= 1; i-- {
		values = append(values, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Percentile(values, q); got != want {
			t.Errorf("%v: got %d, want %d", q, got, want)
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

func TestSummary(t *testing.T) {
	c := cell("a", "x", peer.Ours, 100, 300, 200)
	c.Samples[0].Violations, c.Samples[1].Foreign, c.Samples[2].Longest = 2, 0.5, time.Minute
	c.Samples[0].Shares = []int64{10, 30}
	c.Samples[1].Shares = []int64{10, 30}
	s := c.Summary()
	if s.Rate != 200 || s.Spread != 1 || s.Commands != 6 || s.Calls != 2 || s.Allocs != 8 || s.Bytes != 600 ||
		s.ServerCPU != 10 || s.ClientCPU != 20 || s.Jain != 1 || s.CommandsPS != 1200 {
		t.Errorf("got %+v", s)
	}
	if s.Violations != 2 || s.Disturbed != 1 || s.Longest != time.Minute || s.LeastShare != 0.5 || s.MostShare != 1.5 {
		t.Errorf("got %+v", s)
	}
}

func TestSummaryOfKeptNames(t *testing.T) {
	s := Sample{Commands: 6000}
	s.Kept, s.Elapsed, s.CPU, s.Goroutines, s.Memory, s.LeastLeft = 1000, 2*time.Second, time.Second, 0.1, 700, 0.6
	worse := s
	worse.LeastLeft = 0.5
	sum := Cell{Samples: []Sample{s, worse, s}}.Summary()
	if sum.Rate != 2000 || sum.Busy != 0.5 || sum.Commands != 3 || sum.CommandsPS != 3000 || sum.Goroutines != 0.1 || sum.Memory != 700 || sum.LeastLeft != 0.5 {
		t.Errorf("got %+v", sum)
	}
}

func TestRatios(t *testing.T) {
	groups := Groups([]Cell{
		cell("ours", "x", peer.Ours, 300),
		cell("same client", "x", peer.Other, 100),
		cell("other client", "y", peer.Other, 200),
		unsafe(cell("does not exclude", "x", peer.Other, 9000)),
		cell("bare", "x", peer.Limit, 600),
	})
	if len(groups) != 1 || groups[0].Best != "other client" {
		t.Fatalf("got %+v, want one group whose best is the other client", groups)
	}
	ours := groups[0].Rows[0]
	if ours.ToBest != 1.5 || ours.ToOwn != 3 || ours.ToLimit != 0.5 {
		t.Errorf("got %v, %v and %v, want 1.5, 3 and 0.5", ours.ToBest, ours.ToOwn, ours.ToLimit)
	}
	if alone := Groups([]Cell{cell("ours", "x", peer.Ours, 300)})[0].Rows[0]; alone.ToBest != 0 || alone.ToLimit != 0 {
		t.Errorf("got ratios to nobody: %+v", alone)
	}
}

func unsafe(c Cell) Cell {
	c.Samples[0].Violations = 1
	return c
}

func TestMarkdown(t *testing.T) {
	left := cell("gone", "y", peer.Other)
	left.Left = "no program"
	busy := cell("busy", "x", peer.Other, 5, 5)
	busy.Samples[1].Foreign = 1
	var b strings.Builder
	err := Markdown(&b, Groups([]Cell{busy, cell("ours", "x", peer.Ours, 14100), unsafe(cell("bad", "x", peer.Other, 10)), left}))
	if err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"### the work (`w`)", "| ours | 14.1 k | 0 % | 2820.00 |", "| gone | – |",
		"- gone was left out: no program", "- bad let in 1 holders too many",
		"- Other programs ran during samples of busy (1 of 2)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	width := 0
	for line := range strings.Lines(text) {
		if n := strings.Count(line, "|"); strings.HasPrefix(line, "|") {
			if width != 0 && n != width {
				t.Errorf("%q has %d bars, the others %d", line, n, width)
			}
			width = n
		}
	}
}

// The tables of stores other than Redis have no columns of Redis, and the turns of
// processes.
func TestMarkdownOfAnotherStore(t *testing.T) {
	c := cell("ours", "zk", peer.Ours, 300, 300)
	c.Work.Kind, c.Work.Processes = work.One, 4
	for i := range c.Samples {
		c.Samples[i].Turns = 2 * int64(c.Samples[i].Elapsed.Seconds()*100)
	}
	var b strings.Builder
	if err := Markdown(&b, Groups([]Cell{c})); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.Contains(text, "| turns/s |") || !strings.Contains(text, "| 300 | 0 % | – | 200 |") || strings.Contains(text, "Redis") || strings.Contains(text, "raw") {
		t.Errorf("got\n%s", text)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.5: "0.50", 9.5: "9.50", 95: "95.0", 950: "950", 999.6: "1.00 k", 14_100: "14.1 k", 1_060_000: "1.06 M",
	} {
		if got := count(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
}

func TestSVG(t *testing.T) {
	kept := cell("kept", "x", peer.Ours, 5)
	kept.Work = work.Work{Name: "k", Title: "kept names", Kind: work.Keep}
	var b strings.Builder
	if err := SVG(&b, Groups([]Cell{cell("a<b", "x", peer.Ours, 1000), cell("c", "x", peer.Limit, 10), kept})); err != nil {
		t.Fatal(err)
	}
	bars := 0
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
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
