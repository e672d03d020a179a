package cli

import (
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// A counter of tokens that somebody has changed is refused with what to do about it, and
// what is said there works.
func TestTokenCounterThatWasChanged(t *testing.T) {
	s := newSite(t)
	counters := func(value string) (names []string, last uint64) {
		for _, key := range s.server.Keys() {
			if !strings.HasPrefix(key, "holdfast:token:") {
				continue
			}
			text, err := s.server.Get(key)
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				last = max(last, n)
			}
			names = append(names, key)
			if value == "" {
				s.server.Del(key)
			} else if err = s.server.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		return names, last
	}
	token := []string{"run", "job", "--", "sh", "-c", "echo $HOLDFAST_TOKEN"}
	for _, value := range []string{"text", "9007199254740992"} {
		s.run(token...)
		s.run("doctor")
		names, last := counters(value)
		if len(names) != 2 {
			t.Fatalf("got counters %q, want that of job and that of doctor", names)
		}
		got := s.run(token...)
		got.want(t, output.ExitRefused, "redis refuses \"job\"", "is no number below 2^53", "delete \"holdfast:token:{")
		if text := s.run("doctor", "--json").stdout; !strings.Contains(text, "token-counter") || !strings.Contains(text, "delete the key that the message names") {
			t.Errorf("%s: got %s, want a finding", value, text)
		}
		counters("")
		got = s.run(token...)
		if next, err := strconv.ParseUint(strings.TrimSpace(got.stdout), 10, 64); err != nil || next <= last {
			t.Errorf("%s: got token %q after the remedy, want more than %d: %s", value, got.stdout, last, got.stderr)
		}
		if text := s.run("doctor", "--json").stdout; strings.Contains(text, "token-counter") {
			t.Errorf("got %s, want no finding any more", text)
		}
	}
}
