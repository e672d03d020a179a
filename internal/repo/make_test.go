package repo

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// packagesOf finds a list of packages of internal/e2e in the Makefile.
	packagesOf = regexp.MustCompile(`(?m)^(E2E|SHORTER|STORES) +:= internal/e2e/\((.*)\)\$\$$`)
	makeTarget = regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9]+(?:-[a-z0-9]+)*)")
)

// shortTestsRunWhole finds tests that make test leaves out and that no other target runs.
// Their package has to be in a list of the Makefile. Package sqltest asks testing.Short for
// the tests that use its servers.
func shortTestsRunWhole(t *testing.T, r *repository) {
	lists := packagesOf.FindAllStringSubmatch(r.text(t, "Makefile"), -1)
	if len(lists) != 3 {
		t.Fatalf("Makefile: %d lists of packages, want E2E, SHORTER and STORES", len(lists))
	}
	whole := map[string]bool{}
	for _, list := range lists {
		for name := range strings.SplitSeq(list[2], "|") {
			whole["internal/e2e/"+name] = true
		}
	}
	asked := map[string]bool{}
	for _, name := range r.Files {
		dir := path.Dir(name)
		if !strings.HasPrefix(dir, "internal/e2e/") || !strings.HasSuffix(name, "_test.go") {
			continue
		}
		if text := r.Text[name]; strings.Contains(text, "testing.Short()") || strings.Contains(text, "await.NotShort(") || strings.Contains(text, "/sqltest\"") {
			asked[dir] = true
			if !whole[dir] {
				t.Errorf("%s: no target runs this without -short: name the package in SHORTER of the Makefile", name)
			}
		}
	}
	for name := range strings.SplitSeq(lists[1][2], "|") {
		if !asked["internal/e2e/"+name] {
			t.Errorf("Makefile: SHORTER has %s, whose tests do not ask for -short", name)
		}
	}
}

// makeTargetsExist checks that the targets exist that documents name. TestPages of
// internal/e2e/clitest types the lines of the README and the quickstart.
func makeTargetsExist(t *testing.T, r *repository) {
	makefile := r.text(t, "Makefile")
	for _, doc := range []string{"README.md", "CONTRIBUTING.md"} {
		for _, m := range makeTarget.FindAllStringSubmatch(r.text(t, doc), -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: make has no target %s", doc, m[1])
			}
		}
	}
}
