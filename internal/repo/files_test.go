package repo

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostBytes is the most that a file of any type has. A program has more.
const mostBytes = 512_000

// noBuildIsCommitted finds files that are as large as a program: one that was built in its
// folder was committed once.
func noBuildIsCommitted(t *testing.T, r *repository) {
	ignored := strings.Fields(r.text(t, ".gitignore"))
	for _, name := range r.Files {
		if slices.ContainsFunc(ignored, func(pattern string) bool {
			of, _ := path.Match(pattern, "/"+name)
			base, _ := path.Match(pattern, path.Base(name))
			return of || base
		}) {
			continue
		}
		if size := len(r.Text[name]); size > mostBytes {
			t.Errorf("%s has %d kB, want %d at most: is a build committed?", name, size/1000, mostBytes/1000)
		}
	}
}

// mergesAreFinished finds the lines that git leaves where two changes conflict.
func mergesAreFinished(t *testing.T, r *repository) {
	marker := regexp.MustCompile(`(?m)^(<<<<<<<|>>>>>>>)( |$)`)
	for _, name := range r.Files {
		if at := marker.FindStringIndex(r.Text[name]); at != nil {
			t.Errorf("%s: a merge was not finished: line %d", name, 1+strings.Count(r.Text[name][:at[0]], "\n"))
		}
	}
}
