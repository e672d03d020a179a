package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// failure is a package that failed, and the tests in it that have no failed subtests.
type failure struct {
	pkg   string
	tests []string
}

// forbids finds output that is about more than a bound of time.
func forbids(output string) string {
	grave := regexp.MustCompile(`WARNING: DATA RACE|race detected during execution|` +
		`(?:panic|fatal error|runtime error): |` + // also a test binary that timed out, and a bubble in deadlock
		`found unexpected goroutines|signal: |` +
		`\[(?:build|setup) failed\]|` +
		`process \d+ op \d+ \(|no order of the calls explains|` + // internal/e2e/judge
		`breach: |holders at the same time: [1-9]|` + // internal/e2e/matrix
		`token \S+ (?:after|is not larger)|\d (?:writers )?inside|\d holders|(?i:two holders: |both hold it)|` +
		`clients hold the lock|(?:got|has) a lock that|want that it waits for the standby|` +
		`violation: `) // internal/e2e/soak, and histories
	return strings.TrimSpace(grave.FindString(output))
}

// failures reads what go test printed. It returns the packages that failed, or an error
// with the reason for which they must not run again.
func failures(output string) (failed []failure, err error) {
	if found := forbids(output); found != "" {
		return nil, fmt.Errorf("the output has %q", found)
	}
	failedTest, failedPackage := regexp.MustCompile(`^ *--- FAIL: (\S+) \(`), regexp.MustCompile(`^FAIL\t(\S+)(?:\s|$)`)
	passedPackage := regexp.MustCompile(`^(?:ok  |\?   )\t\S`)
	servers := regexp.MustCompile(`^` + module + `/(?:internal/e2e/|redishold/|cmd/holdfast$)`)
	var tests []string // of the package whose output is read
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if m := failedTest.FindStringSubmatch(line); m != nil {
			tests = append(tests, m[1])
			continue
		}
		if passedPackage.MatchString(line) && len(tests) > 0 {
			return nil, fmt.Errorf("failed tests before the line %q", line)
		}
		m := failedPackage.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		f := failure{m[1], leaves(tests)}
		switch {
		case len(f.tests) == 0:
			return nil, fmt.Errorf("%s failed without a failed test", f.pkg)
		case !servers.MatchString(f.pkg):
			return nil, fmt.Errorf("%s has no real servers", f.pkg)
		}
		failed, tests = append(failed, f), nil
	}
	if len(failed) == 0 || len(tests) > 0 {
		return nil, errors.New("nobody knows which package failed")
	}
	return failed, nil
}

// leaves returns the tests without those that failed with a subtest.
func leaves(tests []string) []string {
	return slices.DeleteFunc(slices.Clone(tests), func(test string) bool {
		return slices.ContainsFunc(tests, func(other string) bool { return strings.HasPrefix(other, test+"/") })
	})
}
