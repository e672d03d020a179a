package main

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wakeUpGroup is the group of the rows that are of no case.
const wakeUpGroup = "Wake-ups"

// results has a row for each case, with how it ended on each version. A cell is empty where
// the case is not of that version. The first row has the names of the columns.
func (r *report) results() [][]string {
	numbered := regexp.MustCompile(`^(\d+\w*(?: and \d+)?),? (.+)$`) // "07b Go is killed", "17 and 20, fair"
	versions := r.versions()
	rows := [][]string{slices.Concat([]string{"case", "group", "name"}, versions)}
	for _, key := range r.keys() {
		number := ""
		group, name, _ := strings.Cut(key, "/")
		if m := numbered.FindStringSubmatch(name); m != nil {
			number, name = m[1], m[2]
		}
		row := []string{number, group, name}
		for _, v := range versions {
			cell := ""
			if c := r.cases[key][v]; c != nil && c.action == "pass" {
				cell = "passed"
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// rows are those of the file: each case with what it observed, and the times to wake up. A
// case with several observations has a row for each.
func (r *report) rows() [][]string {
	results := r.results()
	rows := [][]string{append(results[0], "observed on", "observed")}
	for i, key := range r.keys() {
		seen := r.seen(key)
		if len(seen) == 0 {
			seen = []sighting{{}}
		}
		for _, s := range seen {
			rows = append(rows, slices.Concat(results[i+1], []string{strings.Join(s.versions, " "), s.text}))
		}
	}
	return append(rows, r.wakeUpRows()...)
}

// resultsOf returns the results that are in rows of a file.
func resultsOf(rows [][]string) [][]string {
	var results [][]string
	for _, row := range rows {
		if len(row) < 5 {
			return nil // of another file
		}
		if row[1] != wakeUpGroup {
			results = append(results, row[:len(row)-2])
		}
	}
	return slices.CompactFunc(results, slices.Equal)
}

// keys are those of the cases, ordered by the numbers that their names begin with. A group
// is not always in one piece.
func (r *report) keys() []string {
	return slices.SortedFunc(maps.Keys(r.cases), func(a, b string) int {
		_, x, _ := strings.Cut(a, "/")
		_, y, _ := strings.Cut(b, "/")
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
}

// wakeUpRows say how many wake-ups were measured on each version, and how long they took.
func (r *report) wakeUpRows() [][]string {
	count, median, longest := []string{"", wakeUpGroup, "measured"}, []string{"", wakeUpGroup, "p50-ms"}, []string{"", wakeUpGroup, "longest-ms"}
	ms := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d.Round(100*time.Microsecond))/float64(time.Millisecond), 'f', -1, 64)
	}
	for _, v := range r.versions() {
		var all []time.Duration
		for _, c := range r.cases {
			all = append(all, c[v].wakeUps()...)
		}
		slices.Sort(all)
		count = append(count, strconv.Itoa(len(all)))
		if len(all) == 0 {
			median, longest = append(median, ""), append(longest, "")
			continue
		}
		median, longest = append(median, ms(all[len(all)/2])), append(longest, ms(all[len(all)-1]))
	}
	rows := [][]string{count, median, longest}
	for i := range rows {
		rows[i] = append(rows[i], "", "")
	}
	return rows
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
