//go:build !race

package holdfast_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// firstWord matches a first word that looks like the name of a declaration.
	firstWord = regexp.MustCompile(`^[A-Za-z_]\w*\b`)
	smallWord = regexp.MustCompile(`^[a-z]+$`)
)

// usedNames returns the identifiers in the Go files of each folder.
func usedNames(r *repository) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for name, file := range r.code {
		used := all[path.Dir(name)]
		if used == nil {
			used = map[string]bool{}
			all[path.Dir(name)] = used
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used[id.Name] = true
			}
			return true
		})
	}
	return all
}

// documented is a comment of a declaration, and the names with which it may begin.
type documented struct {
	doc   *ast.CommentGroup
	names []string
	alone bool // a function, or a type with its own comment
}

// documentedIn returns the declarations, fields and methods of a file that have comments.
// A comment in a group may begin with any name of the group.
func documentedIn(file *ast.File) (all []documented) {
	add := func(doc *ast.CommentGroup, alone bool, names []string) {
		if doc != nil && len(names) > 0 {
			all = append(all, documented{doc: doc, names: names, alone: alone})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Doc, true, []string{n.Name.Name})
		case *ast.GenDecl:
			names := declaredNames(n)
			add(n.Doc, n.Tok == token.TYPE, names)
			for _, spec := range n.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Doc, true, names)
				case *ast.ValueSpec:
					add(spec.Doc, false, names)
				}
			}
		case *ast.FieldList:
			names := fieldNames(n)
			for _, field := range n.List {
				add(field.Doc, false, names)
			}
		}
		return true
	})
	return all
}

func fieldNames(fields *ast.FieldList) (names []string) {
	if fields == nil {
		return nil
	}
	for _, field := range fields.List {
		for _, id := range field.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

func declaredNames(d *ast.GenDecl) (names []string) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		case *ast.ValueSpec:
			for _, id := range spec.Names {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

// misnamed returns the word with which a comment begins if it has to be one of the names
// that are declared, and is not: a word in small letters and, for a function or a type, a
// name that the folder uses.
func (d documented) misnamed(used func(string) bool) string {
	word := firstWord.FindString(d.doc.Text())
	switch {
	case word == "" || slices.Contains(d.names, word):
		return ""
	case !ast.IsExported(word), d.alone && used(word):
		return word
	}
	return ""
}

// commentFaults returns words that stand twice in a comment. Indented lines are code.
func commentFaults(text string) (faults []string) {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "  ") {
			lines = append(lines, line)
		}
	}
	bare := codeSpans.ReplaceAllString(strings.Join(lines, ""), " ")
	words := strings.Fields(bare)
	for i := 1; i < len(words); i++ {
		if words[i] == words[i-1] && smallWord.MatchString(words[i]) {
			faults = append(faults, fmt.Sprintf("%q stands twice", words[i]))
		}
	}
	return faults
}

// checkComments compares comments with the names that they are about.
func checkComments(t *testing.T, r *repository) {
	used := usedNames(r)
	for name, file := range r.code {
		if isNotRead(name) {
			continue
		}
		isTest := strings.HasSuffix(name, "_test.go") // whose comments are sentences about what they test
		for _, d := range documentedIn(file) {
			if wrong := d.misnamed(func(word string) bool { return !isTest && used[path.Dir(name)][word] }); wrong != "" {
				t.Errorf("%s: the comment begins with %s, and declares %s", r.fset.Position(d.doc.Pos()), wrong, strings.Join(d.names, ", "))
			}
		}
		for _, group := range file.Comments {
			for _, fault := range commentFaults(group.Text()) {
				t.Errorf("%s: %s", r.fset.Position(group.Pos()), fault)
			}
		}
	}
}

func TestFaultsOfCommentsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"It is at most most of them.\n":         1,
		"The limit is maxName, that is that.\n": 0,
		"For example:\n\n\toldName no no\n":     0,
	} {
		if found := commentFaults(text); len(found) != want {
			t.Errorf("%q: found %q, want %d", text, found, want)
		}
	}
	const source = `package p

// renamed returns nothing.
func current() {}

// Other returns nothing.
func Another() {}

// Nobody needs it.
func unused() {}

const (
	// second is the limit of both.
	first, second = 1, 2
	// third is not here.
	fourth = 4
)

type pair struct {
	// stale is the left one.
	left int
}
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range documentedIn(file) {
		if word := d.misnamed(func(word string) bool { return word == "Other" }); word != "" {
			found = append(found, word)
		}
	}
	if want := []string{"renamed", "Other", "third", "stale"}; !slices.Equal(found, want) {
		t.Errorf("misnamed comments: found %q, want %q", found, want)
	}
}
