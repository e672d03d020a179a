package main

import (
	_ "embed"
	"fmt"
	"path"
	"strings"
)

const module = "github.com/holdfast-go/holdfast"

//go:embed timed.txt
var timedList string

// timed has the tests that may run again, by package: each is a name, with a pattern of
// path.Match in place of what differs between subtests. All subtests of it count.
type timed map[string][]string

// parseTimed reads a list of lines with a package, a test and a reason.
func parseTimed(list string) (timed, error) {
	t := timed{}
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("timed.txt: %q has no package, test and reason", line)
		}
		if _, err := path.Match(fields[1], ""); err != nil {
			return nil, fmt.Errorf("timed.txt: %q: %w", fields[1], err)
		}
		pkg := path.Join(module, fields[0])
		t[pkg] = append(t[pkg], fields[1])
	}
	return t, nil
}

// has says that a test of a package is listed, or one that it is a subtest of.
func (t timed) has(pkg, test string) bool {
	parts := strings.Split(test, "/")
	for _, pattern := range t[pkg] {
		n := strings.Count(pattern, "/") + 1
		if n > len(parts) {
			continue
		}
		if ok, _ := path.Match(pattern, strings.Join(parts[:n], "/")); ok {
			return true
		}
	}
	return false
}
