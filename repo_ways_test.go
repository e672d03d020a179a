//go:build !race

package holdfast_test

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	// wayStep is a file and its functions in a way of docs/ways.md.
	wayStep  = regexp.MustCompile("`([a-z_/]+\\.go)`: ((?:`[A-Za-z.]+`(?:,? then |, | or )?)+)")
	wayAside = regexp.MustCompile(` \([^)]*\)`)
	wayNames = regexp.MustCompile("`([A-Za-z.]+)`")
	// changePlace is what a row of docs/changing.md names in a file.
	changePlace = regexp.MustCompile("((?:`[A-Za-z.]+`(?:, | and )?)+) in `([a-z_/]+\\.go)`")
	// turnConstant is a row of the constants in docs/turns.md.
	turnConstant = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` in `([a-z_/]+\\.go)` \\| ([^ ]+) \\|")
	// nanoseconds replaces the units of package time by numbers.
	nanoseconds = strings.NewReplacer("time.Microsecond", "1e3", "time.Millisecond", "1e6", "time.Second", "1e9")
)

// waysAreAsDescribed looks up the functions that docs/ways.md names on the ways of a lock.
// A numbered list has each file once.
func waysAreAsDescribed(t *testing.T, r *repository) {
	found := 0
	for _, way := range strings.Split(read(t, "docs/ways.md"), "\n## ")[1:] {
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

// placesAreAsDescribed looks up what docs/changing.md names in the files where to change
// something.
func placesAreAsDescribed(t *testing.T, r *repository) {
	places := changePlace.FindAllStringSubmatch(read(t, "docs/changing.md"), -1)
	for _, place := range places {
		for _, name := range wayNames.FindAllStringSubmatch(place[1], -1) {
			if file := r.code[place[2]]; !hasFunc(file, name[1]) && !hasSpec(file, name[1]) {
				t.Errorf("docs/changing.md: %s does not declare %s", place[2], name[1])
			}
		}
	}
	if len(places) < 50 {
		t.Errorf("%d places were understood, want 50 at least", len(places))
	}
}

// constantsAreAsDescribed compares the constants that docs/turns.md explains with the code.
func constantsAreAsDescribed(t *testing.T, r *repository) {
	rows := turnConstant.FindAllStringSubmatch(read(t, "docs/turns.md"), -1)
	for _, row := range rows {
		if got := constantOf(r.code[row[2]], row[1]); got != row[3] {
			t.Errorf("docs/turns.md: %s in %s is %q, described as %q", row[1], row[2], got, row[3])
		}
	}
	if len(rows) < 20 {
		t.Errorf("%d constants were understood, want 20 at least", len(rows))
	}
}

// constantOf returns the value of a constant, a duration as package time writes it. It
// returns "" if the file does not declare it.
func constantOf(file *ast.File, name string) (value string) {
	if file == nil {
		return ""
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != name || len(spec.Values) != 1 {
			return true
		}
		expr := types.ExprString(spec.Values[0])
		v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, nanoseconds.Replace(expr))
		if err != nil || v.Value == nil {
			return false
		}
		if value = v.Value.ExactString(); strings.Contains(expr, "time.") {
			ns, _ := constant.Int64Val(constant.ToInt(v.Value))
			value = time.Duration(ns).String()
		}
		return false
	})
	return value
}

// hasSpec reports whether a file declares a type, a constant or a variable.
func hasSpec(file *ast.File, name string) bool {
	return file != nil && slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		g, ok := d.(*ast.GenDecl)
		return ok && slices.ContainsFunc(g.Specs, func(s ast.Spec) bool {
			switch s := s.(type) {
			case *ast.TypeSpec:
				return s.Name.Name == name
			case *ast.ValueSpec:
				return slices.ContainsFunc(s.Names, func(id *ast.Ident) bool { return id.Name == name })
			}
			return false
		})
	})
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
