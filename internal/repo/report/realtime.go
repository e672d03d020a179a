package main

import (
	"go/ast"
	"go/token"
	"path"
	"strings"

	"github.com/holdfast-go/holdfast/internal/repo"
)

// realTime returns the sleeps of tests in real time, and their comparisons with the time that
// has passed: these fail on a machine that stands still for a while. Comparisons without that
// time, see await.Watch, are not among them, nor is a folder that simulates time.
func realTime(r *repo.Repository) (found []finding) {
	simulated := map[string]bool{"internal/await": true}
	for name, file := range r.Code {
		if repo.Imports(file, "testing/synctest") {
			simulated[path.Dir(name)] = true
		}
	}
	for name, file := range r.Code {
		servers := strings.HasPrefix(name, "internal/e2e/")
		if repo.Imports(file, "testing/synctest") || !servers && (simulated[path.Dir(name)] || !strings.HasSuffix(name, "_test.go")) {
			continue
		}
		add := func(n ast.Node, text string) {
			found = append(found, finding{name, r.Fset.Position(n.Pos()).Line, text})
		}
		addRealTime(file, add)
	}
	return found
}

// addRealTime calls add for calls of time.Sleep, and for comparisons with time.Since or with a
// variable that has its value.
func addRealTime(file *ast.File, add func(ast.Node, string)) {
	since := map[string]bool{} // these variables; a name means the same in the whole file
	passed := func(e ast.Node) (is bool) {
		ast.Inspect(e, func(e ast.Node) bool {
			id, ok := e.(*ast.Ident)
			is = is || repo.Calls(e, "time", "Since") || ok && since[id.Name]
			return !is
		})
		return is
	}
	ast.Inspect(file, func(e ast.Node) bool {
		switch e := e.(type) {
		case *ast.AssignStmt:
			for i, v := range e.Rhs {
				if id, ok := e.Lhs[i].(*ast.Ident); ok {
					since[id.Name] = passed(v)
				}
			}
		case *ast.BinaryExpr:
			compares := e.Op == token.LSS || e.Op == token.GTR || e.Op == token.LEQ || e.Op == token.GEQ
			if compares && passed(e) {
				add(e, "a bound of real time")
			}
		case *ast.CallExpr:
			if repo.Calls(e, "time", "Sleep") {
				add(e, "a sleep in real time")
			}
		}
		return true
	})
}
