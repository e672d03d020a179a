package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each command has a page.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	call(t, nil, "man", dir).want(t, 0)
	pages := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[strings.TrimSuffix(filepath.Base(file), ".1")] = string(text)
	}
	for _, name := range []string{"holdfast", "holdfast-run", "holdfast-config-check", "holdfast-urls", "holdfast-version"} {
		if !strings.Contains(pages[name], "\n.SH DESCRIPTION\n") {
			t.Errorf("%s has no page", name)
		}
	}
	for name, want := range map[string][]string{
		"holdfast":      {"NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"},
		"holdfast-run":  {"NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "OPTIONS", "CONNECTION OPTIONS", "DETAILS", "EXIT STATUS", "SEE ALSO"},
		"holdfast-urls": {"NAME", "DESCRIPTION", "SEE ALSO"},
	} {
		var got []string
		for _, heading := range regexp.MustCompile(`(?m)^\.SH (.*)$`).FindAllStringSubmatch(pages[name], -1) {
			got = append(got, heading[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got the sections %q, want %q", name, got, want)
		}
	}
	for name, page := range pages {
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.HasPrefix(line, ".SH ") && !strings.HasPrefix(line, ".TH ") && line != ".nf\n" && line != ".fi\n" {
				t.Errorf("%s: a line of text is a request to man: %q", name, line)
			}
		}
	}
}

func TestManNeedsAFolder(t *testing.T) {
	call(t, nil, "man").want(t, 64, "give the folder")
	call(t, nil, "man", filepath.Join(os.DevNull, "x")).want(t, 1, os.DevNull)
}
