package repo

import (
	"fmt"
	"go/ast"
	"io/fs"
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
	pageHeading = regexp.MustCompile(`^#{1,6} +(.*?)(?: +#+)?$`)
	pageLink    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	anchorLink  = regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
	pageOfCode  = regexp.MustCompile(`\b(docs/[\w./-]+\.md)(?:#([\w-]+))?`)

	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	fileName = regexp.MustCompile(`^[\w.*/-]+\.(go|lua|md|mod|yml|work)$`)
	testName = regexp.MustCompile(`\b(?:Test|Example|Fuzz|Benchmark)[A-Z]\w*`)
	mdLink   = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// pagesAreListed finds pages that docs/README.md, the list of all pages, does not lead to.
// Decisions are read on their own.
func pagesAreListed(t *testing.T, r *repository) {
	list := r.text(t, "docs/README.md")
	for _, page := range r.Files {
		link, below := strings.CutPrefix(page, "docs/")
		if !below || path.Ext(page) != ".md" || path.Dir(page) == "docs/adr" || link == "README.md" {
			continue
		}
		if !strings.Contains(list, "]("+link+")") {
			t.Errorf("docs/README.md has no link to %s", page)
		}
	}
}

// anchorsOf returns the anchors of a page, as GitHub makes them from its headings. Its code has
// none.
func anchorsOf(page string) map[string]bool {
	anchors := map[string]bool{}
	text, _ := Prose(page)
	for line := range strings.Lines(text) {
		heading := pageHeading.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if heading == nil {
			continue
		}
		title := slugOf(heading[1])
		slug := title
		for n := 1; anchors[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", title, n)
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
			text, exists := r.Text[page]
			if !exists {
				t.Errorf("%s names %s, which does not exist", from, page)
				return
			}
			anchors[page] = anchorsOf(text)
		}
		if anchor != "" && !anchors[page][anchor] {
			t.Errorf("%s: %s has no section #%s", from, page, anchor)
		}
	}
	for _, name := range r.Files {
		text := ""
		switch path.Ext(name) {
		case ".md":
			text, _ = Prose(r.Text[name])
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
			if text = r.Text[name]; strings.HasSuffix(name, "_test.go") {
				text = commentsOf(r.Code[name])
			}
		case ".lua", ".txt", ".html", ".yml", ".yaml", ".sh", "":
			text = r.Text[name]
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

// documentsPointAtWhatExists checks that the files and links exist that documents name. Pages
// for users also name the test that shows what they say. Pages about the code may name what
// has another name by now.
func documentsPointAtWhatExists(t *testing.T, r *repository) {
	tests := map[string]bool{}
	bases := map[string]bool{}
	for _, name := range r.Files {
		bases[path.Base(name)] = true
	}
	for name, file := range r.Code {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && strings.HasSuffix(name, "_test.go") {
				tests[d.Name.Name] = true
			}
		}
	}
	for _, doc := range r.Files {
		if path.Ext(doc) != ".md" {
			continue
		}
		text := r.Text[doc]
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(path.Join(r.Root, path.Dir(doc), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", doc, m[1], err)
			}
		}
		for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
			if !r.isFile(m[1], bases) {
				t.Errorf("%s: `%s`: no such file", doc, m[1])
			}
			if isAboutCode(doc) {
				continue
			}
			for _, name := range testName.FindAllString(m[1], -1) {
				if !tests[name] {
					t.Errorf("%s: `%s`: no test called %s", doc, m[1], name)
				}
			}
		}
	}
}

// isAboutCode reports whether a page describes the code, and not what a user gets.
func isAboutCode(page string) bool {
	return path.Dir(page) == "docs/adr" || slices.Contains([]string{"docs/ways.md", "docs/changing.md", "docs/turns.md"}, page)
}

// isFile reports whether a code span names a file that exists, or no file. The parameter
// `bases` has the names of all files without their folders.
func (r *repository) isFile(span string, bases map[string]bool) bool {
	if !fileName.MatchString(span) || strings.HasPrefix(span, "/") {
		return true
	}
	if bases[span] {
		return true // its folder is given beside it
	}
	found, _ := fs.Glob(os.DirFS(r.Root), path.Clean(span))
	return len(found) > 0
}
