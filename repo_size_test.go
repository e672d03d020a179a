//go:build !race

package holdfast_test

import (
	"go/ast"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// Limits of what a reader has to read.
const (
	mostLines     = 400 // of a file
	mostFuncLines = 60
	mostRootFiles = 16
	mostBytes     = 512_000 // of a file of any type
)

// sizesAreBounded limits the lengths of files and functions that are no tests, and the
// number of exported names of the packages that all users read. No file is as large as a
// program: one that was built in its folder was committed once.
func sizesAreBounded(t *testing.T, r *repository) {
	ignored := strings.Fields(read(t, ".gitignore"))
	for _, name := range r.files {
		if slices.ContainsFunc(ignored, func(pattern string) bool {
			of, _ := path.Match(pattern, "/"+name)
			base, _ := path.Match(pattern, path.Base(name))
			return of || base
		}) {
			continue
		}
		if info, err := os.Stat(name); err != nil {
			t.Error(err)
		} else if info.Size() > mostBytes {
			t.Errorf("%s has %d kB, want %d at most: is a build committed?", name, info.Size()/1000, mostBytes/1000)
		}
	}
	names, rootFiles := map[string]int{}, 0
	for name, file := range r.code {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if n := r.fset.File(file.Pos()).LineCount() - 1; n > mostLines {
			t.Errorf("%s has %d lines, want %d at most", name, n, mostLines)
		}
		if path.Dir(name) == "." {
			rootFiles++
		}
		names[path.Dir(name)] += exportedNames(file)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := r.fset.Position(fn.End()).Line - r.fset.Position(fn.Pos()).Line + 1; n > mostFuncLines {
				t.Errorf("%s: %s has %d lines, want %d at most", name, fn.Name.Name, n, mostFuncLines)
			}
		}
	}
	if rootFiles > mostRootFiles {
		t.Errorf("the root has %d files that are no tests, want %d at most", rootFiles, mostRootFiles)
	}
	for dir, most := range map[string]int{".": 80, "driver": 42} {
		if names[dir] > most {
			t.Errorf("package %s exports %d names, want %d at most", dir, names[dir], most)
		}
	}
}

// exportedNames counts the exported types, functions, variables and constants of a file,
// and the exported methods of its exported types.
func exportedNames(file *ast.File) (n int) {
	count := func(id *ast.Ident) {
		if id.IsExported() {
			n++
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if of := receiverOf(d); of == "" || ast.IsExported(of) {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					count(s.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						count(id)
					}
				}
			}
		}
	}
	return n
}
