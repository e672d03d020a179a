package repo

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Comment is a comment of a declaration, a field or a method.
type Comment struct {
	Doc   *ast.CommentGroup
	Names []string // with one of which it may begin: in a group, all names of the group
	alone bool     // it belongs to a function, or to a type
}

// CommentsOf returns the comments of the declarations of a file, of their fields and methods.
func CommentsOf(file *ast.File) (all []Comment) {
	add := func(doc *ast.CommentGroup, alone bool, names []string) {
		if doc != nil && len(names) > 0 {
			all = append(all, Comment{doc, names, alone})
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

// Misnamed returns the first word of the comment if it looks like a name, but not like one that
// is declared there; otherwise "". A word in small letters always looks like a name. A word
// with a capital does so in the comment of a function or a type, if used returns true for it.
func (c Comment) Misnamed(used func(name string) bool) string {
	word := firstWord(c.Doc.Text())
	switch {
	case !token.IsIdentifier(word) || slices.Contains(c.Names, word):
		return ""
	case !ast.IsExported(word), c.alone && used(word):
		return word
	}
	return ""
}

func firstWord(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return text[:max(end, 0)]
}

// Exported reports whether the comment belongs to an exported name.
func (c Comment) Exported() bool { return slices.ContainsFunc(c.Names, ast.IsExported) }

// UsedNames returns the identifiers in the Go files of each folder.
func (r *Repository) UsedNames() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for name, file := range r.Code {
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
