package cli

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// unprintable is a name that a terminal would obey, or show as another.
const unprintable = "a\x1b[31m\x7f\u0085\u009b31m\u202egnp\u2066\u200b\ufeff\u2028\U000e0041z\u00e4\U0001f512"

// What programs read is shown on terminals too.
func TestJSONHasOnlyWhatCanBePrinted(t *testing.T) {
	s := newSite(t)
	s.hold(unprintable)
	owner := fmt.Sprint(objects(t, s.run("inspect", "--json", unprintable))[0]["holds"].([]any)[0].(map[string]any)["owner"])
	for _, args := range [][]string{
		{"ls", "--json"},
		{"inspect", "--json", unprintable},
		{"status", "--json", unprintable},
		{"status", "--json", "--prefix", unprintable},
		{"tail", "--json", "--scan", "50ms", "--count", "1", "--for", "2s"},
		{"force-unlock", "--json", "--reason", unprintable, "--yes", "--holder", owner, unprintable},
	} {
		got := s.run(args...)
		if text := strings.Trim(got.stdout, "\n"); text == "" || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%q: got %q with status %d, want only what can be printed: %s", args, text, got.code, got.stderr)
		}
	}
	got := call(t, append(s.environ, "HOLDFAST_LOG_FORMAT=json"), "run", "-n", "--skip-ok", unprintable, "true")
	if strings.ContainsFunc(strings.TrimSpace(got.stderr), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("got %q, want only what can be printed", got.stderr)
	}
}
