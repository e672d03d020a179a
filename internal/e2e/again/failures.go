package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// failure is a package that failed, the tests in it that have no failed subtests, and the
// first lines of what they say.
type failure struct {
	pkg   string
	tests []string
	says  []string
}

// Of a failure, so many lines are kept for the table at the end of CI, and so much of each.
const saysMost, lineMost = 6, 300

// forbids finds output that is about more than a bound of time.
func forbids(output string) string {
	grave := regexp.MustCompile(`WARNING: DATA RACE|race detected during execution|` +
		`(?:panic|fatal error|runtime error): |` + // also a test binary that timed out, and a bubble in deadlock
		`found unexpected goroutines|signal: |` +
		`\[(?:build|setup) failed\]|` +
		`process \d+ op \d+ \([^)]*\) and\b|no order of the calls explains|` + // internal/e2e/judge
		`breach: |holders at the same time: [1-9]|` + // internal/e2e/matrix
		`token \S+ (?:after|is not larger)|\d (?:writers )?inside|\d holders|(?i:two holders: |both hold it)|` +
		`clients hold the lock|(?:got|has) a lock that|want that it waits for the standby|` +
		`violation: `) // internal/e2e/soak, and histories
	return strings.TrimSpace(grave.FindString(output))
}

// failures reads what go test printed. It returns the packages that failed, also with an
// error, which is the reason for which they must not run again.
func failures(output string) (failed []failure, err error) {
	failedTest, failedPackage := regexp.MustCompile(`^ *--- FAIL: (\S+) \(`), regexp.MustCompile(`^FAIL\t(\S+)(?:\s|$)`)
	passedPackage := regexp.MustCompile(`^(?:ok  |\?   )\t\S`)
	message := regexp.MustCompile(`^ +\w+\.go:\d+: |VIOLATION|WARNING: DATA RACE|^(?:panic|fatal error): `)
	servers := regexp.MustCompile(`^` + module + `/(?:internal/e2e/|redishold/|cmd/holdfast/internal/cli$)`)
	if found := forbids(output); found != "" {
		err = fmt.Errorf("the output has %q", found)
	}
	refuse := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	passes := regexp.MustCompile(`^ *(?:=== |--- (?:PASS|SKIP): )`)
	var f failure // of the package whose output is read
	kept := 0     // of what it says; with -v the rest may be of a test that passes
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if m := failedTest.FindStringSubmatch(line); m != nil {
			f.tests, kept = append(f.tests, m[1]), len(f.says)
			continue
		}
		if passes.MatchString(line) {
			f.says = f.says[:kept]
		}
		if len(f.says) < saysMost && message.MatchString(line) {
			line = strings.TrimSpace(line)
			f.says = append(f.says, line[:min(len(line), lineMost)])
			continue
		}
		if passedPackage.MatchString(line) {
			if len(f.tests) > 0 {
				refuse("failed tests before the line %q", line)
			}
			f, kept = failure{}, 0
			continue
		}
		m := failedPackage.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		f.pkg, f.tests = m[1], leaves(f.tests)
		switch {
		case len(f.tests) == 0:
			refuse("%s failed without a failed test", f.pkg)
		case !servers.MatchString(f.pkg):
			refuse("%s has no real servers", f.pkg)
		}
		failed, f, kept = append(failed, f), failure{}, 0
	}
	if len(failed) == 0 || len(f.tests) > 0 {
		refuse("nobody knows which package failed")
	}
	return failed, err
}

// leaves returns the tests without those that failed with a subtest.
func leaves(tests []string) []string {
	return slices.DeleteFunc(slices.Clone(tests), func(test string) bool {
		return slices.ContainsFunc(tests, func(other string) bool { return strings.HasPrefix(other, test+"/") })
	})
}
