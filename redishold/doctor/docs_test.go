package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each finding has a row in docs/doctor.md, and there are no others. The ids are in the code that
// makes findings, mostly in the tables of checks.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	_, tables, _ := strings.Cut(string(text), "## Findings")
	for line := range strings.Lines(tables) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, quoted := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cells[1], -1) {
				told = append(told, quoted[1])
			}
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`(?:\bID: |\t\{(?:\w+, )?|\t\{caps\.\w+, |tryMessage\(ctx, )"([a-z-]+)"[,}]`)
	var ids []string
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			for _, id := range made.FindAllStringSubmatch(string(source), -1) {
				ids = append(ids, id[1])
			}
		}
	}
	slices.Sort(told)
	slices.Sort(ids)
	if ids = slices.Compact(ids); !slices.Equal(told, ids) || len(ids) < 40 {
		t.Errorf("got rows for %v\nwant rows for %v", told, ids)
	}
}

// Every check says why its finding matters and what to do, and what the server does not report if
// the check may miss that.
func TestTextsOfChecks(t *testing.T) {
	e := &exam{options: Options{}.withDefaults()}
	haveTexts(t, e, &server{}, slices.Concat(serverChecks(), replicaChecks(), outerChecks(), clusterChecks()))
	haveTexts(t, e, []*sentinel{{}}, sentinelChecks())
}

// haveTexts checks the texts of checks. The parameter `nothing` has reported nothing.
func haveTexts[T any](t *testing.T, e *exam, nothing T, checks []check[T]) {
	t.Helper()
	for _, c := range checks {
		if c.why == "" || c.remedy == "" {
			t.Errorf("%s: got no reason or no remedy: %+v", c.id, c.texts)
		}
		if got := c.run(e, nothing).Severity; got == Unknown && (c.lacks == "" || c.right == "") {
			t.Errorf("%s is unknown, but does not say what the server does not report: %+v", c.id, c.texts)
		}
	}
}
