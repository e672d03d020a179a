//go:build !race

package holdfast_test

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLeaksAreLookedFor shows that the tests of every package notice a goroutine that is
// left behind. The root module has no dependency: there it is a bubble of testing/synctest,
// which waits for all goroutines that were started in it. So it is in examples, which have only
// what a reader would copy. In the other modules it is goleak.
func TestLeaksAreLookedFor(t *testing.T) {
	r := readRepository(t)
	looks := map[string]bool{} // by folder with tests
	for name, file := range r.code {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := path.Dir(name)
		if r.moduleOf(name) == "." || strings.HasPrefix(name, "examples/") {
			looks[dir] = looks[dir] || importsBubbles(file)
			continue
		}
		looks[dir] = looks[dir] || callsGoleak(file)
	}
	if len(looks) < 5 {
		t.Fatalf("only %d folders have tests: %v", len(looks), looks)
	}
	for dir, found := range looks {
		if !found {
			t.Errorf("nothing in %s would notice a goroutine that is left behind", dir)
		}
	}
}

// importsBubbles reports whether a file uses testing/synctest.
func importsBubbles(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		name, err := strconv.Unquote(spec.Path.Value)
		return err == nil && name == "testing/synctest"
	})
}

// callsGoleak reports whether a file calls goleak for all tests of its package, or for what
// they share.
func callsGoleak(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		found = found || isCall(n, "goleak", "VerifyTestMain", "VerifyNone")
		return !found
	})
	return found
}

// isCall reports whether n is a call of one of these functions of a package.
func isCall(n ast.Node, pkg string, names ...string) bool {
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
