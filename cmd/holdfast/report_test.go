package main

import (
	"bytes"
	"regexp"
	"testing"
)

// A line of the log stands in place of the line of progress, and not behind it.
func TestLogErasesTheProgress(t *testing.T) {
	var screen bytes.Buffer
	env := environment{stderr: &screen, environ: []string{"HOLDFAST_LOG_LEVEL=debug"}}
	report := newReporter(env, false)
	logger, err := libraryLogger(env, report)
	if err != nil {
		t.Fatal(err)
	}
	report.draw("waiting 3s for lock")
	logger.Warn("renewal failed")
	logger.Warn("again")
	report.draw("waiting 4s for lock")
	report.erase()
	want := `^\r\x1b\[Kwaiting 3s for lock\r\x1b\[Ktime=\S+ level=WARN msg="renewal failed"\ntime=\S+ level=WARN msg=again\n\r\x1b\[Kwaiting 4s for lock\r\x1b\[K$`
	if !regexp.MustCompile(want).Match(screen.Bytes()) {
		t.Errorf("got %q, want %s", &screen, want)
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 permits", 1: "1 permit", 2: "2 permits"} {
		if got := plural(n, "permit"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
