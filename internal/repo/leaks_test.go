package repo

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// leaksAreLookedFor shows that the tests of every package notice a goroutine that is
// left behind. The root module has no dependency: there it is a bubble of testing/synctest,
// which waits for all goroutines that were started in it. So it is in examples, which have only
// what a reader would copy. In the other modules it is goleak.
func leaksAreLookedFor(t *testing.T, r *repository) {
	looks := map[string]bool{} // by folder with tests
	for name, file := range r.Code {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := path.Dir(name)
		if r.moduleOf(name) == "." || strings.HasPrefix(name, "examples/") {
			looks[dir] = looks[dir] || Imports(file, "testing/synctest")
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

// callsGoleak reports whether a file calls goleak for all tests of its package, or for what
// they share.
func callsGoleak(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		found = found || Calls(n, "goleak", "VerifyTestMain", "VerifyNone")
		return !found
	})
	return found
}
