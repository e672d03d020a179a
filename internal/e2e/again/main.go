// Command again stands in for the go command in .ci/run. It passes everything on to it, and
// gives tests that failed a second run where that may be no more than a busy machine: their
// package has real servers, and the output has no data race, panic, leak, or verdict about
// holders and tokens.
//
//	HOLDFAST_AGAIN=again.txt again test -race -p 2 ./internal/e2e/…
//
// The second run has the same flags, begins when all packages have ended, and takes the
// tests that failed, of one package at a time, with all subtests that the flags allow. How
// failed tests ended, and what they said, is written to the file. Without HOLDFAST_AGAIN there
// is no second run.
// HOLDFAST_COSTS names a file for what each test binary costs.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "github.com/holdfast-go/holdfast"

func main() {
	args, file := os.Args[1:], os.Getenv("HOLDFAST_COSTS")
	if len(args) > 1 && args[0] == measure {
		os.Exit(costs(args[1:], file))
	}
	os.Exit(run(measured(args, file), os.Getenv("HOLDFAST_AGAIN"), os.Stdout))
}

// run runs the go command, a second time where that is allowed, and returns its status.
func run(args []string, record string, out io.Writer) int {
	if record == "" || !mayRunAgain(args) {
		return goCommand(args, out)
	}
	if slices.Contains(args, "-json") {
		return runJSON(args, record, out)
	}
	var first bytes.Buffer
	status := goCommand(args, io.MultiWriter(out, &first))
	if status == 0 {
		return 0
	}
	failed, err := failures(first.String())
	if err != nil {
		fmt.Fprintln(out, "again: no second run:", err)
		return max(status, note(record, "failed", failed, out))
	}
	return second(args, failed, record, out, out)
}

// second runs the packages that failed once more, and returns the status of all of it.
func second(args []string, failed []failure, record string, out, says io.Writer) int {
	for _, f := range failed {
		fmt.Fprintf(says, "again: %s runs once more, alone: %s\n", f.pkg, strings.Join(f.tests, ", "))
		var text bytes.Buffer
		status, result := goCommand(alone(args, f), io.MultiWriter(out, &text)), "passed at the second run"
		ends := []failure{f}
		if status != 0 {
			twice, _ := failures(text.String())
			ends, result = append(ends, twice...), "failed at both runs"
		}
		if status = max(status, note(record, result, ends, says)); status != 0 {
			return status
		}
	}
	return 0
}

// goCommand runs the go command with out in place of its standard output, and returns its
// status.
func goCommand(args []string, out io.Writer) int {
	cmd := exec.Command("go", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
		return 1
	}
	return 0
}

// mayRunAgain says that a command runs tests.
func mayRunAgain(args []string) bool { return len(args) > 0 && args[0] == "test" }

// alone is a command with one package in place of all, and the tests in it that failed.
func alone(args []string, f failure) (only []string) {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "./") && !strings.HasPrefix(arg, module) {
			only = append(only, arg)
		}
	}
	if slices.Contains(args, "-json") { // a reader of events counts all tests of the package
		return append(only, f.pkg)
	}
	var tests []string
	for _, test := range f.tests {
		test, _, _ = strings.Cut(test, "/")
		if !slices.Contains(tests, test) {
			tests = append(tests, test)
		}
	}
	return append(only, "-run=^("+strings.Join(tests, "|")+")$"+subtests(args), f.pkg)
}

// subtests is the part of the caller's -run that chooses subtests, from its first slash on:
// the others have not run, and may need what is not there.
func subtests(args []string) string {
	for i, arg := range args {
		run, found := strings.CutPrefix(arg, "-run=")
		if arg == "-run" && i+1 < len(args) {
			run, found = args[i+1], true
		}
		if _, levels, below := strings.Cut(run, "/"); found && below {
			return "/" + levels
		}
	}
	return ""
}

// note writes how tests ended that failed, with what they said, for the table of CI, and
// returns the status of that.
func note(record, result string, failed []failure, says io.Writer) int {
	var lines strings.Builder
	for _, f := range failed {
		fmt.Fprintf(&lines, "%s: %s: %s\n", result, f.pkg, strings.Join(f.tests, ", "))
		for _, line := range f.says {
			fmt.Fprintf(&lines, "    %s\n", line)
		}
	}
	if err := add(record, lines.String()); err != nil {
		fmt.Fprintln(says, "again:", err)
		return 1
	}
	return 0
}
