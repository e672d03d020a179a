package doctor

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each finding has a row in docs/doctor.md and a block in findings.txt, and there are no others.
// The ids are in the code that makes findings, mostly in the tables of checks.
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
	texts := slices.Sorted(maps.Keys(parseTexts()))
	texts = slices.DeleteFunc(texts, func(id string) bool { return strings.Contains(id, "/") }) // special cases
	if !slices.Equal(told, texts) {
		t.Errorf("got rows for %v\ngot texts for %v", told, texts)
	}
	if ids = slices.Compact(ids); !slices.Equal(told, ids) || len(ids) < 40 {
		t.Errorf("got rows for %v\nwant rows for %v", told, ids)
	}
}
