//go:build unix

package clitest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

// block is a piece of code of a page.
type block pages.Block

// blocksOf returns all of a page, in their order. Those in other languages than Go and
// sh would be typed by no test.
func blocksOf(t *testing.T, page string) (all []block) {
	t.Helper()
	for _, b := range pages.Of(t, page) {
		if b.Language != "go" && b.Language != "sh" {
			t.Fatalf("%s: a block in the language %q, want go or sh:\n%s", page, b.Language, b.Text)
		}
		all = append(all, block(b))
	}
	return all
}

// file returns the name of the file that a block of Go is, "" for a part of a program.
func (b block) file() string {
	switch {
	case !strings.HasPrefix(b.Text, "package main\n"):
		return ""
	case strings.Contains(b.Text, `"testing"`):
		return "main_test.go"
	}
	return "main.go"
}

// filesOf returns the files of a page by name.
func filesOf(t *testing.T, page string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, b := range blocksOf(t, page) {
		if b.Language == "go" && b.file() != "" {
			files[b.file()] = b.Text
		}
	}
	return files
}

// The README and the quickstart have the same programs, but for how long they wait.
func TestPagesHaveTheSameCode(t *testing.T) {
	readme, quickstart := filesOf(t, "README.md"), filesOf(t, "docs/quickstart.md")
	readme["main.go"] = strings.Replace(readme["main.go"], short, minute, 1)
	for _, name := range []string{"main.go", "main_test.go"} {
		if readme[name] == "" || readme[name] != quickstart[name] {
			t.Errorf("the README has another %s than the quickstart:\n%s", name, readme[name])
		}
	}
}

// TestPages checks the output of lines and blocks that the pages have.
func TestCheckedLinesExist(t *testing.T) {
	text := ""
	for _, page := range []string{"README.md", "docs/quickstart.md"} {
		for _, b := range blocksOf(t, page) {
			text += "\n" + b.Text
		}
	}
	for _, begin := range append(slices.Collect(maps.Keys(printed)), twice, killed) {
		if !strings.Contains(text, "\n"+begin) {
			t.Errorf("no page has a line that begins with %q", begin)
		}
	}
}
