package repo

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// module is the content of a go.mod.
type module struct {
	path     string
	requires map[string]string // version by path
	replaces bool
}

// workspace returns the folders that a go.work uses.
func workspace(text string) (used []string) {
	for _, line := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(text, -1) {
		used = append(used, path.Clean(line[1]))
	}
	return used
}

// parseGoMod reads the directives that the checks need.
func parseGoMod(text string) module {
	m := module{requires: map[string]string{}}
	block := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		switch words[0] {
		case "module":
			m.path = words[1]
		case "require":
			m.requires[words[1]] = words[2]
		case "replace":
			m.replaces = true
		}
	}
	return m
}

// addVersions adds the versions that a module requires of the released modules below root.
// The others stay at v0.0.0.
func (m module) addVersions(versions map[string]string, dir, root string) {
	for required, version := range m.requires {
		if of, ours := within(required, root); ours && !strings.HasPrefix(of, "internal/") {
			versions[version] = dir + " requires " + required
		}
	}
}

func workspaceIsWhole(t *testing.T, r *repository) {
	if got := slices.Sorted(maps.Keys(r.outside)); !slices.Equal(got, []string{"internal/hosts"}) {
		t.Errorf("go.work leaves out the modules in %q, want only internal/hosts", got)
	}
	root := r.modules["."].path
	versions := map[string]string{}
	for dir, m := range r.modules {
		if dir != "." && m.path != root+"/"+dir {
			t.Errorf("%s/go.mod is of module %s, want %s", dir, m.path, root+"/"+dir)
		}
		if m.replaces {
			t.Errorf("%s/go.mod has a replace directive: go.work is the place", dir)
		}
		m.addVersions(versions, dir, root)
	}
	for dir, m := range r.outside {
		m.addVersions(versions, dir, root)
	}
	if len(versions) != 1 {
		t.Errorf("modules of this repository are required in versions %v, want one version", versions)
	}
}

// foldersHaveRows requires a row for each folder with code: in
// docs/architecture.md, or for tests with servers and for the command in a README of theirs.
func foldersHaveRows(t *testing.T, r *repository) {
	folders := map[string]bool{}
	for _, name := range r.Files {
		if ext := path.Ext(name); (ext == ".go" || ext == ".lua") && path.Dir(name) != "." && !strings.Contains(name, "/testdata/") {
			folders[path.Dir(name)] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		in, folder := "docs/architecture.md", dir
		for _, above := range []string{"internal/e2e/", "cmd/holdfast/internal/"} {
			if below, ok := strings.CutPrefix(dir, above); ok {
				in, folder = above+"README.md", below
			}
		}
		if !regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(folder) + "`").MatchString(r.text(t, in)) {
			t.Errorf("%s has no row for `%s`", in, folder)
		}
	}
}
