// Command report prints what only a reader can judge: words that are hard to read, the lengths
// of pages, pages in Chinese that are behind, and real time in tests. Nothing of it is a
// failure, so it always ends with status 0. It reads the repository of the current folder:
//
//	make report
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/holdfast-go/holdfast/internal/repo"
)

func main() {
	r, err := repo.Read(".")
	if err != nil {
		fmt.Println("no report:", err)
		return
	}
	report(os.Stdout, r)
}

// finding is what a reader may want to look at: a line of a file, counted from 1.
type finding struct {
	file string
	line int
	text string
}

// report writes all findings. Those of a subject are in the order of files and lines, and pages
// in the order of their lengths.
func report(out io.Writer, r *repo.Repository) {
	show(out, "Words that are hard to read", inOrder(words(r)))
	show(out, "Comments that begin with another name, or have a word twice", inOrder(comments(r)))
	show(out, "Pages in Chinese that are behind", inOrder(behind(r)))
	show(out, "Pages, the longest first", lengths(r))
	show(out, "Real time in tests: wait for an event, or measure with await.Watch", inOrder(realTime(r)))
}

func show(out io.Writer, title string, found []finding) {
	fmt.Fprintf(out, "%s: %d\n", title, len(found))
	for _, f := range found {
		fmt.Fprintf(out, "%s:%d: %s\n", f.file, f.line, f.text)
	}
	fmt.Fprintln(out)
}

// inOrder sorts findings by files and lines.
func inOrder(found []finding) []finding {
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.text, b.text))
	})
	return found
}
