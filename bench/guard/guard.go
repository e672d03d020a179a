// Package guard compares what a lock costs with a committed table. It looks only
// at what does not depend on the machine: allocations, Redis commands, reads and
// writes, and goroutines.
package guard

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"

	"github.com/holdfast-go/holdfast/bench/report"
)

// Figures are what one lock and unlock cost, or one name that is kept, by the keys of
// the table. A figure that has no bound is not compared.
type Figures map[string]float64

// Table has the Figures by "work/peer".
type Table map[string]Figures

// Load reads a table.
func Load(path string) (Table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var t Table
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Save writes a table, rounded to two digits behind the point, in a form whose changes
// can be read in a diff.
func (t Table) Save(path string) error {
	rounded := Table{}
	for key, f := range t {
		rounded[key] = Figures{}
		for name, v := range f {
			rounded[key][name] = math.Round(v*100) / 100
		}
	}
	text, err := json.MarshalIndent(rounded, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// slack is by how much a figure may exceed its bound: a part of it, and an
// amount. What happens once in a sample, and not once in a pair, is within it.
type slack struct{ part, amount float64 }

func (s slack) over(got, want float64) bool  { return got > want+want*s.part+s.amount }
func (s slack) under(got, want float64) bool { return got < want-want*s.part-s.amount }

// figure is one of Figures.
type figure struct {
	key, title string
	of         func(report.Sample) float64 // by all pairs
	slack      slack
	linux      bool // only Linux counts it
}

// reads is the key of the one figure that is rounded.
const reads = "reads"

// figures returns those that can be measured on this system.
func figures() []figure {
	all := []figure{
		{"allocs", "allocations", func(s report.Sample) float64 { return float64(s.Allocs) }, slack{0.02, 0.5}, false},
		{"bytes", "bytes", func(s report.Sample) float64 { return float64(s.Bytes) }, slack{0.02, 16}, false},
		{"redis_commands", "Redis commands", func(s report.Sample) float64 { return float64(s.Commands) }, slack{0.02, 0.3}, false},
		{"script_calls", "script calls", func(s report.Sample) float64 { return float64(s.Calls) }, slack{0.02, 0.1}, false},
		{"goroutine_starts", "starts of goroutines", func(s report.Sample) float64 { return float64(s.Starts) }, slack{0, 0.2}, false},
		{"goroutine_runs", "runs of goroutines", func(s report.Sample) float64 { return float64(s.Runs) }, slack{0.1, 1}, false},
		{reads, "reads", func(s report.Sample) float64 { return float64(s.Reads) }, slack{0, 0.5}, true},
		{"writes", "writes", func(s report.Sample) float64 { return float64(s.Writes) }, slack{0, 0.2}, true},
		{"goroutines", "goroutines", func(s report.Sample) float64 { return s.Goroutines }, slack{0, 0.02}, false},
	}
	return slices.DeleteFunc(all, func(f figure) bool { return f.linux && runtime.GOOS != "linux" })
}

// Compare returns what is worse in got than in want, which fails a check, and
// what is better, which should be written down. Both name every figure.
func Compare(got, want Table) (worse, better []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		have, ok := got[key]
		if !ok {
			worse = append(worse, key+": was not measured")
			continue
		}
		for _, f := range figures() {
			bound, bounded := want[key][f.key]
			now, measured := have[f.key]
			switch {
			case !bounded:
			case !measured:
				worse = append(worse, fmt.Sprintf("%s: %s were not measured", key, f.title))
			case f.slack.over(now, bound):
				worse = append(worse, fmt.Sprintf("%s: %.2f %s, want at most %.2f", key, now, f.title, bound))
			case f.slack.under(now, bound):
				better = append(better, fmt.Sprintf("%s: %.2f %s, down from %.2f", key, now, f.title, bound))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			worse = append(worse, key+": is measured and has no bound")
		}
	}
	return worse, better
}
