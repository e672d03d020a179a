package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action string
	Test   string
	Key    string
	Value  string
	Output string
}

// result is what became of a case on a version.
type result struct {
	action string // pass, skip, fail
	attrs  [][2]string
}

// report is a run of the suite.
type report struct {
	cases  map[string]map[string]*result // by "Kind/name" and version
	failed bool
}

// read reads a run, and prints what is printed of tests that fail.
func read(in io.Reader, out io.Writer) (*report, error) {
	r := &report{cases: map[string]map[string]*result{}}
	printed := map[string][]string{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // of the go command itself
			continue
		}
		switch e.Action {
		case "output":
			printed[e.Test] = append(printed[e.Test], e.Output)
		case "attr":
			if c := r.find(e.Test); c != nil {
				c.attrs = append(c.attrs, [2]string{e.Key, e.Value})
			}
		case "fail", "pass", "skip":
			if c := r.find(e.Test); c != nil {
				c.action = e.Action
			}
			if e.Action == "fail" {
				r.failed = true
				fmt.Fprint(out, strings.Join(printed[e.Test], ""))
			}
			delete(printed, e.Test)
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "build-fail":
			r.failed = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for _, versions := range r.cases {
		for _, c := range versions {
			r.failed = r.failed || c.action == "" // the run broke off
		}
	}
	if len(r.cases) == 0 && !r.failed {
		return nil, fmt.Errorf("no case was run")
	}
	return r, nil
}

// find returns the result of a test of the form TestKind/version/all/case, or nil
// for any other.
func (r *report) find(test string) *result {
	part := strings.Split(test, "/")
	if len(part) != 4 || part[2] != "all" {
		return nil
	}
	key := strings.TrimPrefix(part[0], "Test") + "/" + strings.ReplaceAll(part[3], "_", " ")
	if r.cases[key] == nil {
		r.cases[key] = map[string]*result{}
	}
	if r.cases[key][part[1]] == nil {
		r.cases[key][part[1]] = &result{}
	}
	return r.cases[key][part[1]]
}

// versions are those of the run, the oldest first.
func (r *report) versions() []string {
	var all []string
	for _, c := range r.cases {
		for v := range c {
			if !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) })
	return all
}

func numbers(version string) []int {
	n := make([]int, 3)
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &n[0], &n[1], &n[2])
	return n
}
