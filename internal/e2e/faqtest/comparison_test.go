package faqtest

import (
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

// TestComparedVersions compares the versions that docs/comparison.md names with those that
// tests use. A higher version has to be read again before the page names it.
func TestComparedVersions(t *testing.T) {
	const mod, poms = "internal/e2e/go.mod", "internal/e2e/interop/"
	text := pages.File(t, "docs/comparison.md")
	for library, used := range map[string]struct{ file, before string }{
		"[redsync]":                 {mod, "github.com/go-redsync/redsync/v4 v"},
		"[redislock]":               {mod, "github.com/bsm/redislock v"},
		"[rueidislock]":             {mod, "github.com/redis/rueidis v"},
		"[etcd]":                    {mod, "go.etcd.io/etcd/client/v3 v"},
		"[go-zookeeper]":            {mod, "github.com/go-zookeeper/zk v"},
		"[Redisson](https://github": {poms + "java/pom.xml", "<redisson.version>"},
		"[Curator]":                 {poms + "curator/pom.xml", "<artifactId>curator-recipes</artifactId>\n      <version>"},
		"[ShedLock]":                {poms + "shedlock/pom.xml", "<artifactId>shedlock-provider-jdbc-template</artifactId>\n      <version>"},
	} {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(library) + `[^|]*\| ([\d.]+)`).FindStringSubmatch(text)
		if row == nil {
			t.Errorf("docs/comparison.md has no version of %s", library)
			continue
		}
		version := regexp.MustCompile(regexp.QuoteMeta(used.before) + `([\d.]+)`).FindStringSubmatch(pages.File(t, used.file))
		if version == nil {
			t.Errorf("%s has no version of %s", used.file, library)
			continue
		}
		if got, want := row[1], version[1]; got != want {
			t.Errorf("docs/comparison.md compares %s %s, and the tests use %s", library, got, want)
		}
	}
}
