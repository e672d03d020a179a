package repo

import (
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// scriptsHaveHeaders requires a header that describes every key and argument of the script,
// and its reply.
func scriptsHaveHeaders(t *testing.T, r *repository) {
	seen := 0
	for _, name := range r.Files {
		if path.Ext(name) != ".lua" {
			continue
		}
		seen++
		header, body := cutHeader(r.Text[name])
		if header == "" || section(header, "Reply") == "" {
			t.Errorf("%s: the header has no Reply", name)
		}
		for _, list := range []string{"KEYS", "ARGV"} {
			told := section(header, list)
			if strings.Contains(body, list) && told == "" {
				t.Errorf("%s: the header has no %s", name, list)
			}
			for _, use := range regexp.MustCompile(list+`\[(\d+)\]`).FindAllStringSubmatch(body, -1) {
				if !regexp.MustCompile(`\b` + use[1] + `(\.\.\.|\])? `).MatchString(told) {
					t.Errorf("%s: the header does not tell of %s[%s]", name, list, use[1])
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no Lua file found")
	}
}

// The script "use" prints its usage when it is asked for help.
func TestUseHelp(t *testing.T) {
	out, err := exec.Command("sh", "../../use", "--help").Output()
	if err != nil || !strings.Contains(string(out), "sh ../holdfast/use redishold/goredisconn") || strings.Contains(string(out), "set -eu") {
		t.Errorf("got %q, %v, want the usage", out, err)
	}
}

// cutHeader splits a script after the comment that it begins with.
func cutHeader(text string) (header, body string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		header += line
	}
	return header, strings.TrimPrefix(text, header)
}

// section returns the part of a header about KEYS, ARGV or Reply: the lines that begin with
// the word, and the indented lines below them.
func section(header, word string) string {
	var text strings.Builder
	within := false
	for line := range strings.Lines(header) {
		within = strings.HasPrefix(line, "-- "+word) || within && strings.HasPrefix(line, "--   ")
		if within {
			text.WriteString(strings.TrimPrefix(line, "-- "+word))
		}
	}
	return text.String()
}
