package repo

import (
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reasonRow is a row of the table of reasons: the reason, and its meaning.
var reasonRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]*\\w[^|]* \\|")

// reasonsAreDescribed compares the reasons for a loss in docs/operating.md, to which the other
// pages link, with those of package driver.
func reasonsAreDescribed(t *testing.T, r *repository) {
	_, text, _ := strings.Cut(r.text(t, "docs/operating.md"), "\n## Why a lock was lost\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var described []string
	for _, row := range reasonRow.FindAllStringSubmatch(text, -1) {
		described = append(described, row[1])
	}
	slices.Sort(described)
	if want := reasons(r.Code["driver/errors.go"]); len(want) == 0 || !slices.Equal(described, want) {
		t.Errorf("docs/operating.md has the reasons %q, driver/errors.go %q", described, want)
	}
}

// reasons returns the values of the constants of type Reason in a file, sorted.
func reasons(file *ast.File) (found []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.ValueSpec)
		if !ok || len(s.Values) != 1 {
			return true
		}
		typ, _ := s.Type.(*ast.Ident)
		value, _ := s.Values[0].(*ast.BasicLit)
		if typ == nil || typ.Name != "Reason" || value == nil {
			return true
		}
		reason, _ := strconv.Unquote(value.Value) // the parser has checked it
		found = append(found, reason)
		return true
	})
	slices.Sort(found)
	return found
}
