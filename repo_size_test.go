//go:build !race

package holdfast_test

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// mostBytes is the most that a file of any type has. A program has more.
const mostBytes = 512_000

// noBuildIsCommitted finds files that are as large as a program: one that was built in its
// folder was committed once.
func noBuildIsCommitted(t *testing.T, r *repository) {
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
}
