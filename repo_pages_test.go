//go:build !race

package holdfast_test

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	pageHeading = regexp.MustCompile(`^(#{1,6}) +(.*?)(?: +#+)?$`)
	pageLink    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	anchorLink  = regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
	pageOfCode  = regexp.MustCompile(`\b(docs/[\w./-]+\.md)(?:#([\w-]+))?`)
)

// pagesAreInOrder checks each page of the documents: its place in docs/README.md, and whether a
// page in Chinese is behind the one in English.
func pagesAreInOrder(t *testing.T, r *repository) {
	for _, page := range r.files {
		example, _ := path.Match("examples/*/README.md", page)
		if path.Ext(page) == ".md" && (strings.HasPrefix(page, "docs/") || strings.HasPrefix(page, "README.") || page == "CONTRIBUTING.md" || example) {
			for _, fault := range pageFaults(t, page, read(t, page)) {
				t.Errorf("%s: %s", page, fault)
			}
		}
	}
}

// pageFaults returns what is wrong with a page.
func pageFaults(t *testing.T, page, text string) (faults []string) {
	if english, chinese := englishOf(page); chinese {
		faults = append(faults, chineseFaults(t, page, english)...)
	}
	if link, ok := strings.CutPrefix(page, "docs/"); ok && path.Dir(page) != "docs/adr" && link != "README.md" {
		if !strings.Contains(read(t, "docs/README.md"), "]("+link+")") {
			faults = append(faults, "docs/README.md has no link to it")
		}
	}
	return faults
}

// heading is a heading of a page, and its line.
type heading struct {
	level, line int
	title       string
}

// headingsOf returns the headings of a page. Its code has none.
func headingsOf(text string) (all []heading) {
	text, _ = prose(text)
	for i, line := range strings.Split(text, "\n") {
		if m := pageHeading.FindStringSubmatch(line); m != nil {
			all = append(all, heading{len(m[1]), i, m[2]})
		}
	}
	return all
}

// anchorsOf returns the anchors of a page, as GitHub makes them from its headings.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, h := range headingsOf(text) {
		slug := slugOf(h.title)
		for n := 1; anchors[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", slugOf(h.title), n)
		}
		anchors[slug] = true
	}
	return anchors
}

func slugOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, pageLink.ReplaceAllString(title, "$1"))
}

// linksLeadToHeadings checks the links to a section of a page, in documents and in what the
// code says about pages. In tests it reads the comments only.
func linksLeadToHeadings(t *testing.T, r *repository) {
	anchors := map[string]map[string]bool{}
	check := func(from, page, anchor string) {
		if _, known := anchors[page]; !known {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Errorf("%s names %s: %v", from, page, err)
				return
			}
			anchors[page] = anchorsOf(string(text))
		}
		if anchor != "" && !anchors[page][anchor] {
			t.Errorf("%s: %s has no section #%s", from, page, anchor)
		}
	}
	for _, name := range r.files {
		text := ""
		switch path.Ext(name) {
		case ".md":
			text, _ = prose(read(t, name))
			for _, m := range anchorLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
				page := name
				if m[1] != "" {
					page = path.Join(path.Dir(name), m[1])
				}
				if path.Ext(page) == ".md" {
					check(name, page, m[2])
				}
			}
			continue
		case ".go":
			if text = read(t, name); strings.HasSuffix(name, "_test.go") {
				text = commentsOf(r.code[name])
			}
		case ".lua", ".txt", ".html", ".yml", ".yaml", ".sh", "":
			text = read(t, name)
		}
		for _, m := range pageOfCode.FindAllStringSubmatch(text, -1) {
			check(name, m[1], m[2])
		}
	}
}

// commentsOf returns the comments of a file.
func commentsOf(file *ast.File) string {
	var text strings.Builder
	for _, group := range file.Comments {
		text.WriteString(group.Text())
	}
	return text.String()
}

// The anchors that the checks look up.
func TestAnchors(t *testing.T) {
	anchors := anchorsOf("# The `a_b` of [x](y.md), c-d!\n## 下一步\n## Twice\n### Twice\n```\n# code\n```\n")
	if want := []string{"the-a_b-of-x-c-d", "twice", "twice-1", "下一步"}; !slices.Equal(slices.Sorted(maps.Keys(anchors)), want) {
		t.Errorf("got the anchors %q, want %q", slices.Sorted(maps.Keys(anchors)), want)
	}
}
