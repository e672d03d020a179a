package repo

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	oldestGo     = regexp.MustCompile(`(?m)^go (\d+\.\d+)\.0$`)
	oldestClient = regexp.MustCompile(`([\w./-]+) (\d+\.\d+\.\d+)[,.]`)
	majorVersion = regexp.MustCompile(`(/v\d+)$`)
)

// isLibrary reports whether users have the packages of the module in a folder in programs of
// their own: by import, or as a copy.
func isLibrary(dir string) bool {
	return dir != "bench" && !strings.HasPrefix(dir, "cmd/") && !strings.HasPrefix(dir, "internal/")
}

// oldestVersionsAreAsSaid compares the versions of Go and of clients in docs/README.md with
// each go.mod.
func oldestVersionsAreAsSaid(t *testing.T, r *repository) {
	_, text, _ := strings.Cut(r.text(t, "docs/README.md"), "\nThe libraries need Go ")
	library, rest, _ := strings.Cut(text, ", the command Go ")
	command, rest, _ := strings.Cut(rest, ". ")
	said := map[string]string{}
	for _, m := range oldestClient.FindAllStringSubmatch(rest, -1) {
		said[m[1]] = "v" + m[2]
	}
	named := map[string]bool{}
	for dir, m := range r.modules {
		want := command
		if isLibrary(dir) {
			want = library
		}
		if got := oldestGo.FindStringSubmatch(r.text(t, path.Join(dir, "go.mod"))); got == nil || got[1] != want {
			t.Errorf("%s/go.mod: got Go %q, docs/README.md says %q", dir, got, want)
		}
		for required, version := range m.requires {
			for client, oldest := range said {
				if !isLibrary(dir) || !strings.HasSuffix("/"+majorVersion.ReplaceAllString(required, ""), "/"+client) {
					continue
				}
				if named[client] = true; version != oldest {
					t.Errorf("%s/go.mod requires %s %s, docs/README.md says %s", dir, required, version, oldest)
				}
			}
		}
	}
	if len(said) < 7 || len(named) != len(said) {
		t.Errorf("docs/README.md names the clients %v, the libraries require of those %v", said, named)
	}
}
