//go:build !race

package holdfast_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// wayStep is a file and its functions in a way of docs/architecture.md.
	wayStep  = regexp.MustCompile("`([a-z_/]+\\.go)`: ((?:`[A-Za-z.]+`(?:,? then |, | or )?)+)")
	wayAside = regexp.MustCompile(` \([^)]*\)`)
	wayNames = regexp.MustCompile("`([A-Za-z.]+)`")
)

// waysAreAsDescribed looks up the functions that docs/architecture.md names on the
// ways of a lock. A numbered list has each file once.
func waysAreAsDescribed(t *testing.T, r *repository) {
	_, text, _ := strings.Cut(read(t, "docs/architecture.md"), "## The ways of a lock\n")
	text, _, _ = strings.Cut(text, "\n## ")
	found := 0
	for _, way := range strings.Split(text, "\n### ")[1:] {
		name, _, _ := strings.Cut(way, "\n")
		var passed []string
		for _, line := range strings.Split(wayAside.ReplaceAllString(way, ""), "\n") {
			if strings.HasPrefix(line, "1. ") {
				passed = nil
			}
			for _, step := range wayStep.FindAllStringSubmatch(line, -1) {
				found++
				file := step[1]
				if line[0] >= '1' && line[0] <= '9' {
					if slices.Contains(passed, file) {
						t.Errorf("%s goes back to %s", name, file)
					}
					passed = append(passed, file)
				}
				for _, fn := range wayNames.FindAllStringSubmatch(step[2], -1) {
					if !strings.HasSuffix(fn[1], ".go") && !hasFunc(r.code[file], fn[1]) {
						t.Errorf("%s: %s has no function %s", name, file, fn[1])
					}
				}
			}
		}
	}
	if found < 35 {
		t.Errorf("%d steps were understood, want 35 at least", found)
	}
}

// hasFunc reports whether a file declares a function, or a method as "type.method".
func hasFunc(file *ast.File, name string) bool {
	receiver, method, ok := strings.Cut(name, ".")
	if !ok {
		receiver, method = "", name
	}
	if file == nil {
		return false
	}
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && fn.Name.Name == method && receiverOf(fn) == receiver
	})
}

// receiverOf returns the type that a method belongs to, "" for a function.
func receiverOf(fn *ast.FuncDecl) (name string) {
	if fn.Recv == nil {
		return ""
	}
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
