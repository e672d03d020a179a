//go:build !race

package holdfast_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// realTime counts the uses of real time in tests: sleeps, and comparisons with the time
// that has passed, which fail on a machine that stands still for a while. Comparisons
// without that time, see await.Watch, do not count, nor do packages that simulate time.
type realTime struct{ sleeps, bounds int }

// realTimeOnlyFalls compares the counts of each folder with the list of its earlier ones.
func realTimeOnlyFalls(t *testing.T, r *repository) {
	const list = "internal/e2e/realtime.txt"
	simulated := map[string]bool{"internal/await": true}
	for name, file := range r.code {
		if importsBubbles(file) {
			simulated[path.Dir(name)] = true
		}
	}
	found := map[string]realTime{}
	for name, file := range r.code {
		e2e := strings.HasPrefix(name, "internal/e2e/")
		if !e2e && (simulated[path.Dir(name)] || !strings.HasSuffix(name, "_test.go")) || importsBubbles(file) {
			continue
		}
		if n := countRealTime(file); n != (realTime{}) {
			n.sleeps += found[path.Dir(name)].sleeps
			n.bounds += found[path.Dir(name)].bounds
			found[path.Dir(name)] = n
		}
	}
	for line := range strings.Lines(read(t, list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var dir string
		var was realTime
		if _, err := fmt.Sscan(line, &was.sleeps, &was.bounds, &dir); err != nil {
			t.Errorf("%s: %q: %v", list, line, err)
		}
		if n := found[dir]; n.sleeps > was.sleeps || n.bounds > was.bounds {
			t.Errorf("%s has %d real sleeps and %d bounds of real time, %d and %d before: wait for an event, or measure with await.Watch", dir, n.sleeps, n.bounds, was.sleeps, was.bounds)
		} else if n != was {
			t.Errorf("%s: %s has only %d and %d now, write that", list, dir, n.sleeps, n.bounds)
		}
		delete(found, dir)
	}
	for dir, n := range found {
		t.Errorf("%s has %d real sleeps and %d bounds of real time, none before: wait for an event, or measure with await.Watch", dir, n.sleeps, n.bounds)
	}
}

// countRealTime counts calls of time.Sleep, and comparisons with time.Since or with a
// variable that has its value.
func countRealTime(file *ast.File) (n realTime) {
	since := map[string]bool{} // these variables; a name means the same in the whole file
	passed := func(e ast.Node) (is bool) {
		ast.Inspect(e, func(e ast.Node) bool {
			id, ok := e.(*ast.Ident)
			is = is || isCall(e, "time", "Since") || ok && since[id.Name]
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
				n.bounds++
			}
		case *ast.CallExpr:
			if isCall(e, "time", "Sleep") {
				n.sleeps++
			}
		}
		return true
	})
	return n
}
