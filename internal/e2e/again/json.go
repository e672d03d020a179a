package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// runJSON is run of a command whose output are events. The events of a package that runs
// again are left out, as a reader counts a package once: their text goes to standard error.
func runJSON(args []string, record string, out io.Writer) int {
	var first bytes.Buffer
	status := goCommand(args, &first)
	if status == 0 {
		return emit(out, first.String())
	}
	texts, failing := texts(first.String())
	var all strings.Builder
	for _, pkg := range failing {
		all.WriteString(texts[pkg])
	}
	failed, err := failures(all.String())
	if err == nil && len(failed) != len(failing) {
		err = fmt.Errorf("%d packages failed, %d of them with tests", len(failing), len(failed))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "again: no second run:", err)
		emit(out, first.String())
		return max(status, note(record, "failed", failed, os.Stderr))
	}
	for line := range strings.Lines(first.String()) {
		again := slices.ContainsFunc(failed, func(f failure) bool { return f.pkg == eventOf(line).Package })
		if !again && emit(out, line) != 0 {
			return 1
		}
	}
	for _, f := range failed {
		fmt.Fprint(os.Stderr, texts[f.pkg])
	}
	return second(args, failed, record, out, os.Stderr)
}

// emit writes text, and returns the status of that.
func emit(out io.Writer, text string) int {
	if _, err := io.WriteString(out, text); err != nil {
		fmt.Fprintln(os.Stderr, "again:", err)
		return 1
	}
	return 0
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// eventOf reads a line. One that is no event, of the go command itself, is text of no
// package.
func eventOf(line string) event {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		return event{Output: line}
	}
	return e
}

// texts returns what each package printed, and the packages that failed.
func texts(events string) (texts map[string]string, failed []string) {
	texts = map[string]string{}
	for line := range strings.Lines(events) {
		e := eventOf(line)
		texts[e.Package] += e.Output
		if e.Action == "fail" && e.Test == "" {
			failed = append(failed, e.Package)
		}
	}
	return texts, failed
}
