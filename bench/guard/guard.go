// Package guard compares what a lock costs with a committed table. It looks only
// at what does not depend on the machine: allocations, Redis commands and
// goroutines.
package guard

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
)

// Figures are what one lock and unlock cost, or one name that is kept. A figure
// that is not given is not compared.
type Figures struct {
	Allocs     *float64 `json:"allocs,omitempty"`
	Bytes      *float64 `json:"bytes,omitempty"`
	Commands   *float64 `json:"redis_commands,omitempty"`
	Calls      *float64 `json:"script_calls,omitempty"`
	Goroutines *float64 `json:"goroutines,omitempty"`
}

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

// Save writes a table, rounded, in a form whose changes can be read in a diff.
func (t Table) Save(path string) error {
	rounded := Table{}
	for key, f := range t {
		rounded[key] = f.rounded()
	}
	text, err := json.MarshalIndent(rounded, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// rounded returns the figures with two digits behind the point.
func (f Figures) rounded() Figures {
	for _, v := range []**float64{&f.Allocs, &f.Bytes, &f.Commands, &f.Calls, &f.Goroutines} {
		if *v != nil {
			r := math.Round(**v*100) / 100
			*v = &r
		}
	}
	return f
}

// slack is by how much a figure may exceed its bound: a part of it, and an
// amount. What happens once in a sample, and not once in a pair, is within it.
type slack struct{ part, amount float64 }

func (s slack) over(got, want float64) bool  { return got > want+want*s.part+s.amount }
func (s slack) under(got, want float64) bool { return got < want-want*s.part-s.amount }

// figure is one of Figures with its name and its slack.
type figure struct {
	name  string
	of    func(Figures) *float64
	slack slack
}

func figures() []figure {
	return []figure{
		{"allocations", func(f Figures) *float64 { return f.Allocs }, slack{0.02, 0.5}},
		{"bytes", func(f Figures) *float64 { return f.Bytes }, slack{0.10, 64}},
		{"Redis commands", func(f Figures) *float64 { return f.Commands }, slack{0.02, 0.2}},
		{"script calls", func(f Figures) *float64 { return f.Calls }, slack{0.02, 0.1}},
		{"goroutines", func(f Figures) *float64 { return f.Goroutines }, slack{0, 0.02}},
	}
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
			bound, now := f.of(want[key]), f.of(have)
			switch {
			case bound == nil:
			case now == nil:
				worse = append(worse, fmt.Sprintf("%s: %s were not measured", key, f.name))
			case f.slack.over(*now, *bound):
				worse = append(worse, fmt.Sprintf("%s: %.2f %s, want at most %.2f", key, *now, f.name, *bound))
			case f.slack.under(*now, *bound):
				better = append(better, fmt.Sprintf("%s: %.2f %s, down from %.2f", key, *now, f.name, *bound))
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
