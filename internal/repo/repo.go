// Package repo reads the files of this repository. The tests beside it are its rules: what
// breaks one fails. Folder report has a program for what only a reader can judge.
package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
)

// Repository has the files of a repository. Their names begin at its root, with slashes.
type Repository struct {
	Root  string               // the folder
	Files []string             // the names of all files, sorted
	Text  map[string]string    // their contents
	Code  map[string]*ast.File // the Go files among them, with their comments
	Fset  *token.FileSet       // the positions in Code
}

// Read reads all files below a folder, without those of git and without builds. It returns the
// error of the first file that it cannot read, or that is no Go although its name says so.
func Read(root string) (*Repository, error) {
	r := &Repository{Root: root, Text: map[string]string{}, Code: map[string]*ast.File{}, Fset: token.NewFileSet()}
	files := os.DirFS(root)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "dist"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		r.Files = append(r.Files, name)
		r.Text[name] = string(text)
		if path.Ext(name) == ".go" {
			r.Code[name], err = parser.ParseFile(r.Fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		}
		return err
	})
	return r, err
}

// Imports reports whether a file imports a package.
func Imports(file *ast.File, pkg string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		name, err := strconv.Unquote(spec.Path.Value)
		return err == nil && name == pkg
	})
}

// Calls reports whether n is a call of one of these functions of a package.
func Calls(n ast.Node, pkg string, names ...string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, fn.Sel.Name) {
		return false
	}
	from, ok := fn.X.(*ast.Ident)
	return ok && from.Name == pkg
}
