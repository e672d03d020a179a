package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// results is the table case × version.
func (r *report) results() string {
	var b strings.Builder
	versions := r.versions()
	fmt.Fprintf(&b, "| | case | %s |\n|---|---|%s\n", strings.Join(versions, " | "), strings.Repeat("---|", len(versions)))
	kind := ""
	for _, key := range slices.SortedFunc(maps.Keys(r.cases), byNumber) {
		k, name, _ := strings.Cut(key, "/")
		if k == kind {
			k = ""
		} else {
			kind = k
		}
		fmt.Fprintf(&b, "| %s | %s |", k, name)
		for _, v := range versions {
			fmt.Fprintf(&b, " %s |", r.cases[key][v].cell())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// byNumber orders cases by the numbers that their names begin with. All cases of a
// kind have numbers next to each other, more or less: a kind is listed once for
// each run of them.
func byNumber(a, b string) int {
	_, x, _ := strings.Cut(a, "/")
	_, y, _ := strings.Cut(b, "/")
	if c := strings.Compare(x, y); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

func (c *result) cell() string {
	switch {
	case c == nil || c.action == "skip":
		return "–"
	case c.action == "pass":
		return "yes"
	default:
		return "**no**"
	}
}

// figures are what the cases measured and what they saw: for each the longest
// wake-up, and the sentences about Redisson itself.
func (r *report) figures() string {
	var b strings.Builder
	b.WriteString("| version | wake-ups measured | median | longest |\n|---|---|---|---|\n")
	for _, v := range r.versions() {
		var all []time.Duration
		for _, c := range r.cases {
			all = append(all, c[v].wakeUps()...)
		}
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		round := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
		fmt.Fprintf(&b, "| %s | %d | %v | %v |\n", v, len(all), round(all[len(all)/2]), round(all[len(all)-1]))
	}
	b.WriteString("\n| case | versions | seen |\n|---|---|---|\n")
	for _, key := range slices.SortedFunc(maps.Keys(r.cases), byNumber) {
		_, name, _ := strings.Cut(key, "/")
		for _, seen := range r.seen(key) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, strings.Join(seen.versions, ", "), strings.ReplaceAll(seen.text, "|", "\\|"))
		}
	}
	return b.String()
}

// sighting is what a case saw of some versions.
type sighting struct {
	text     string
	versions []string
}

// seen returns what a case saw, what is the same of several versions once.
func (r *report) seen(key string) (all []sighting) {
	for _, v := range r.versions() {
		for _, text := range r.cases[key][v].values("observed") {
			i := slices.IndexFunc(all, func(s sighting) bool { return s.text == text })
			if i < 0 {
				i, all = len(all), append(all, sighting{text: text})
			}
			all[i].versions = append(all[i].versions, v)
		}
	}
	return all
}

func (c *result) wakeUps() []time.Duration {
	var all []time.Duration
	for _, text := range c.values("wake-up") {
		if d, err := time.ParseDuration(text); err == nil {
			all = append(all, d)
		}
	}
	return all
}

func (c *result) values(key string) []string {
	if c == nil {
		return nil
	}
	var all []string
	for _, a := range c.attrs {
		if a[0] == key {
			all = append(all, a[1])
		}
	}
	return all
}
