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

const (
	mostFuncLines = 60
	mostBytes     = 512_000 // of a file of any type
)

// sizesAreBounded limits the lengths of functions that are no tests. No file is as large as a
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
	for name, file := range r.code {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
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
}
