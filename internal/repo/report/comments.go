package main

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/repo"
)

// comments returns comments that begin with another name than the one that they stand at, and
// comments that have a word twice.
func comments(r *repo.Repository) (found []finding) {
	code := codeInProse()
	used := r.UsedNames()
	for name, file := range r.Code {
		add := func(n ast.Node, text string) {
			found = append(found, finding{name, r.Fset.Position(n.Pos()).Line, text})
		}
		isTest := strings.HasSuffix(name, "_test.go") // whose comments are sentences about what they test
		for _, c := range repo.CommentsOf(file) {
			wrong := c.Misnamed(func(word string) bool { return !isTest && used[path.Dir(name)][word] })
			if wrong != "" {
				add(c.Doc, fmt.Sprintf("begins with %s, and declares %s", wrong, strings.Join(c.Names, ", ")))
			}
		}
		for _, group := range file.Comments {
			for _, word := range doubled(group.Text(), code) {
				add(group, fmt.Sprintf("%q stands twice", word))
			}
		}
	}
	return found
}

// doubled returns the words in small letters that follow themselves. Indented lines are code,
// and so is what `code` matches.
func doubled(text string, code *regexp.Regexp) (found []string) {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "  ") {
			lines = append(lines, line)
		}
	}
	all := strings.Fields(code.ReplaceAllString(strings.Join(lines, ""), " "))
	for i := 1; i < len(all); i++ {
		small := strings.Trim(all[i], "abcdefghijklmnopqrstuvwxyz") == ""
		if all[i] == all[i-1] && small {
			found = append(found, all[i])
		}
	}
	return found
}
