package output

import (
	"bytes"
	"regexp"
	"testing"
)

// A line of the log stands in place of the line of progress, and not behind it.
func TestLogErasesTheProgress(t *testing.T) {
	var screen bytes.Buffer
	env := Environment{Stderr: &screen, Environ: []string{"HOLDFAST_LOG_LEVEL=debug"}}
	report := NewReporter(env, false)
	logger, err := report.LibraryLogger(env)
	if err != nil {
		t.Fatal(err)
	}
	report.Draw("waiting 3s for lock")
	logger.Warn("renewal failed")
	logger.Warn("again")
	report.Draw("waiting 4s for lock")
	report.Erase()
	want := `^\r\x1b\[Kwaiting 3s for lock\r\x1b\[Ktime=\S+ level=WARN msg="renewal failed"\ntime=\S+ level=WARN msg=again\n\r\x1b\[Kwaiting 4s for lock\r\x1b\[K$`
	if !regexp.MustCompile(want).Match(screen.Bytes()) {
		t.Errorf("got %q, want %s", &screen, want)
	}
}
