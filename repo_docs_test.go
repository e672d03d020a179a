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
	// mixedCaps matches names that no sentence has by accident.
	mixedCaps = regexp.MustCompile(`\b[a-z]+[A-Z]\w*\b`)
	smallWord = regexp.MustCompile(`^[a-z]+$`)
	// doublePreposition matches a parameter that is called like a preposition, after another
	// one: "the keys from from on".
	doublePreposition = regexp.MustCompile(`\b(?:before|after|from|to|of|by|with|above|below|at|in|on|until|unless|within|is) ` +
		`(from|after|before|since|at|in|to|of|on|when|by|with|until|then)\b(?:\W*$|[^\w\s]| (?:and|or|is|has|in|of|to|on|at|that|says|are|comes?)\b)`)
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
	alone bool     // a function, or a type with its own comment
	args  []string // the parameters and results of a function
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
			if n.Doc != nil {
				all[len(all)-1].args = slices.Concat(fieldNames(n.Type.Params), fieldNames(n.Type.Results))
			}
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
				if fn, ok := field.Type.(*ast.FuncType); ok && field.Doc != nil && len(names) > 0 {
					all[len(all)-1].args = slices.Concat(fieldNames(fn.Params), fieldNames(fn.Results))
				}
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

// bareArgument returns a parameter that reads like a preposition in the comment, or "".
func (d documented) bareArgument() string {
	text := strings.Join(strings.Fields(codeSpans.ReplaceAllString(d.doc.Text(), " ")), " ")
	for _, m := range doublePreposition.FindAllStringSubmatch(text, -1) {
		if slices.Contains(d.args, m[1]) {
			return m[1]
		}
	}
	return ""
}

// commentFaults returns words that stand twice in a comment, and names in mixed caps that
// no Go file has: names of other programs are in quotes. Indented lines are code.
func commentFaults(text string, known func(string) bool) (faults []string) {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "  ") {
			lines = append(lines, line)
		}
	}
	bare := codeSpans.ReplaceAllString(strings.Join(lines, ""), " ")
	for _, name := range mixedCaps.FindAllString(bare, -1) {
		if !known(name) {
			faults = append(faults, fmt.Sprintf("no Go file has the name %s; a name of another program has to be in quotes", name))
		}
	}
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
	known := func(name string) bool {
		for _, names := range used {
			if names[name] {
				return true
			}
		}
		return false
	}
	for name, file := range r.code {
		if isNotRead(name) {
			continue
		}
		isTest := strings.HasSuffix(name, "_test.go") // whose comments are sentences about what they test
		for _, d := range documentedIn(file) {
			if wrong := d.misnamed(func(word string) bool { return !isTest && used[path.Dir(name)][word] }); wrong != "" {
				t.Errorf("%s: the comment begins with %s, and declares %s", r.fset.Position(d.doc.Pos()), wrong, strings.Join(d.names, ", "))
			}
			if name := d.bareArgument(); name != "" {
				t.Errorf("%s: the parameter %s reads like a preposition", r.fset.Position(d.doc.Pos()), name)
			}
		}
		for _, group := range file.Comments {
			for _, fault := range commentFaults(group.Text(), known) {
				t.Errorf("%s: %s", r.fset.Position(group.Pos()), fault)
			}
		}
	}
}

func TestFaultsOfCommentsAreFound(t *testing.T) {
	known := func(name string) bool { return name == "maxName" }
	for text, want := range map[string]int{
		"It is at most most of them.\n":                  1,
		"The limit is maxName, that is that.\n":          0,
		"The limit is oldName.\n":                        1,
		"Redisson has \"lockTimeout\" and `waitTime`.\n": 0,
		"For example:\n\n\toldName no no\n":              0,
	} {
		if found := commentFaults(text, known); len(found) != want {
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

// page returns the keys that come from from on.
func page(from int) {}

// pages returns the keys from the first one on.
func pages(from int) {}

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
		if name := d.bareArgument(); name != "" {
			found = append(found, name)
		}
	}
	if want := []string{"renamed", "Other", "third", "from", "stale"}; !slices.Equal(found, want) {
		t.Errorf("misnamed comments: found %q, want %q", found, want)
	}
}
