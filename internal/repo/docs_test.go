package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// at returns where a node is.
func (r *repository) at(n ast.Node) token.Position { return r.Fset.Position(n.Pos()) }

// production returns the Go files that are neither tests nor generated, sorted.
func (r *repository) production() []string {
	var names []string
	for name, file := range r.Code {
		if !strings.HasSuffix(name, "_test.go") && !ast.IsGenerated(file) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func everythingIsDocumented(t *testing.T, r *repository) {
	packages := map[string]bool{} // folder: has a package comment
	for _, name := range r.production() {
		file := r.Code[name]
		packages[path.Dir(name)] = packages[path.Dir(name)] || file.Doc.Text() != ""
		for _, decl := range file.Decls {
			for _, id := range undocumented(decl) {
				t.Errorf("%s: %s has no doc comment", r.at(id), id.Name)
			}
		}
	}
	for dir, ok := range packages {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}

// undocumented returns the exported names of a declaration that have no comment.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc.Text() == "" && (d.Recv == nil || ast.IsExported(receiver(d))) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var found []*ast.Ident
		for _, spec := range d.Specs {
			found = append(found, undocumentedSpec(spec, !d.Lparen.IsValid() && d.Doc.Text() != "")...)
		}
		return found
	}
	return nil
}

func undocumentedSpec(spec ast.Spec, byDecl bool) (found []*ast.Ident) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc.Text() == "" && !byDecl {
			found = append(found, s.Name)
		}
		if i, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
			for _, m := range i.Methods.List {
				// Client of goredisconn lists methods of another library.
				if len(m.Names) > 0 && m.Doc.Text() == "" && m.Comment.Text() == "" && s.Name.Name != "Client" {
					found = append(found, m.Names[0])
				}
			}
		}
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() && s.Doc.Text() == "" && s.Comment.Text() == "" && !byDecl {
				found = append(found, id)
			}
		}
	}
	return found
}

// receiver returns the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// commentsHaveTheirNames finds comments of exported names that begin with another name, as after
// a rename.
func commentsHaveTheirNames(t *testing.T, r *repository) {
	used := r.UsedNames()
	for _, name := range r.production() {
		for _, c := range CommentsOf(r.Code[name]) {
			wrong := c.Misnamed(func(word string) bool { return used[path.Dir(name)][word] })
			if wrong != "" && c.Exported() {
				t.Errorf("%s: the comment begins with %s, and declares %s", r.at(c.Doc), wrong, strings.Join(c.Names, ", "))
			}
		}
	}
}

// What the check must find, and what it must leave alone.
func TestMisnamed(t *testing.T) {
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
	for _, c := range CommentsOf(file) {
		if word := c.Misnamed(func(word string) bool { return word == "Other" }); word != "" {
			found = append(found, word)
		}
	}
	if want := []string{"renamed", "Other", "third", "stale"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
