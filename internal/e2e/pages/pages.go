// Package pages reads the code of documents, for tests that run it or compare it with
// files that tests compile.
package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TidyRetries is a function of the shell that has "go mod tidy" try again: what a module
// proxy refuses once it may give later.
const TidyRetries = `go() { case "$*" in "mod tidy") command go mod tidy || command go mod tidy || command go mod tidy;; *) command go "$@";; esac; }`

// Block is a piece of code of a page.
type Block struct {
	Language string // after the fence: go, sh, "" for none
	Text     string // its lines, the last one too with its end
}

// Of returns the blocks of a page in their order. The page is named by its path from the
// root of the repository, docs/recipes.md. A page without code fails the test, and so does
// a fence that is indented or has no end: no test would see such code.
func Of(t testing.TB, page string) []Block {
	t.Helper()
	text := File(t, page)
	fenced := regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")
	fence := regexp.MustCompile("(?m)^[ \t>]*(```|~~~)")
	var all []Block
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		if strings.TrimSpace(m[2]) == "" {
			t.Fatalf("%s: a block is empty", page)
		}
		all = append(all, Block{Language: m[1], Text: m[2]})
	}
	if len(all) == 0 {
		t.Fatalf("%s has no code", page)
	}
	if n := len(fence.FindAllString(text, -1)); n != 2*len(all) {
		t.Fatalf("%s has %d fences and %d blocks between two that begin their lines", page, n, len(all))
	}
	return all
}

// First returns the text of the first block of a page in that language. A page without one
// fails the test.
func First(t testing.TB, page, language string) string {
	t.Helper()
	for _, b := range Of(t, page) {
		if b.Language == language {
			return b.Text
		}
	}
	t.Fatalf("%s has no block in the language %q", page, language)
	return ""
}

// Within fails the test for each block of a page in that language that none of the files
// has, byte for byte, and if the page has no block in it. The lines of a block may stand
// further to the right in a file, as those of a function do. Paths begin at the root of
// the repository. Whether a test calls the code is for the caller to ensure.
func Within(t testing.TB, page, language string, files ...string) {
	t.Helper()
	code := ""
	for _, name := range files {
		code += "\n" + File(t, name)
	}
	found := false
	for _, b := range Of(t, page) {
		if b.Language != language {
			continue
		}
		found = true
		if !has(code, b.Text) {
			t.Errorf("%s: no file of %q has this block:\n%s", page, files, b.Text)
		}
	}
	if !found {
		t.Fatalf("%s has no block in the language %q", page, language)
	}
}

// has reports whether code has all lines of text, one after the other, with the same white
// space before each.
func has(code, text string) bool {
	for _, before := range []string{"", "\t", "\t\t", "  ", "    "} {
		if strings.Contains(code, "\n"+regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(text, before+"$1")) {
			return true
		}
	}
	return false
}

// File returns the text of a file, which is named by its path from the root of the
// repository.
func File(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// root returns the folder of the repository, in which go.work is. A test runs in the
// folder of its package.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no folder above this one has a go.work: %v", err)
	return ""
}
