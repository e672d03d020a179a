package repo

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func noStateOutsideOfValues(t *testing.T, r *repository) {
	for _, name := range r.production() {
		for _, decl := range r.Code[name].Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: func init", r.at(d))
				}
			case *ast.GenDecl:
				for _, id := range states(d) {
					t.Errorf("%s: package-level variable %s", r.at(id), id.Name)
				}
			}
		}
	}
}

// states returns the variables of a declaration that a program could change.
func states(d *ast.GenDecl) (found []*ast.Ident) {
	if d.Tok != token.VAR {
		return nil
	}
	for _, spec := range d.Specs {
		s := spec.(*ast.ValueSpec)
		embedded := hasEmbed(d.Doc) || hasEmbed(s.Doc)
		for i, id := range s.Names {
			if id.Name == "_" || embedded || i < len(s.Values) && isError(s.Values[i]) {
				continue
			}
			found = append(found, id)
		}
	}
	return found
}

func hasEmbed(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}

// isError reports whether value is errors.New(…), fmt.Errorf(…) or another package's ErrX.
func isError(value ast.Expr) bool {
	made := false
	if call, ok := value.(*ast.CallExpr); ok {
		value, made = call.Fun, true
	}
	s, ok := value.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, _ := s.X.(*ast.Ident)
	if !made {
		return strings.HasPrefix(s.Sel.Name, "Err")
	}
	return from != nil && (from.Name == "errors" && s.Sel.Name == "New" || from.Name == "fmt" && s.Sel.Name == "Errorf")
}
