package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// A time has a unit; a number alone means seconds.
func TestDurationFlag(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0.5": time.Second / 2, "0": 0, "90s": 90 * time.Second, "1m30": 90 * time.Second, "250ms": 250 * time.Millisecond,
	} {
		var got time.Duration
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		durationVar(f, &got, "wait", "w", time.Minute, "")
		if err := f.Parse([]string{"-w", text}); err != nil || got != want {
			t.Errorf("-w %s: got %v and error %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "five", "5 s", "1e400", "9999999999999"} {
		var got time.Duration
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		durationVar(f, &got, "wait", "w", time.Minute, "")
		if err := f.Parse([]string{"--wait=" + text}); err == nil || !strings.Contains(err.Error(), "such as 30s") || got != time.Minute {
			t.Errorf("--wait=%s: got %v and error %v, want an error with an example", text, got, err)
		}
	}
}
