// Package answerstest reads the tables of docs/answers.md for tests.
package answerstest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// Row is a row of the table of a store.
type Row struct {
	Answer  string // a code or a text of the store
	Text    string // a part of the message; "" if the table has no such column
	Meaning answers.Meaning
}

// Rows returns the table of a store. The parameter `root` is the path of the repository, and
// `section` is the title of the section. Rows fails t if there is no such table.
func Rows(t testing.TB, root, section string) (rows []Row) {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/answers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		switch {
		case !strings.HasPrefix(line, "| `"):
		case len(cells) == 3:
			rows = append(rows, Row{Answer: cells[0], Meaning: answers.Meaning(cells[1])})
		case len(cells) == 4:
			rows = append(rows, Row{Answer: cells[0], Text: cells[1], Meaning: answers.Meaning(cells[2])})
		default:
			t.Errorf("%s: a row has %d cells: %s", section, len(cells), line)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("docs/answers.md has no table for %s", section)
	}
	return rows
}

// MeaningOf returns the meaning that the core finds in an error of a store.
func MeaningOf(err error) answers.Meaning {
	for _, of := range []struct {
		is      error
		meaning answers.Meaning
	}{
		{driver.ErrMismatch, answers.Mismatch},
		{driver.ErrGone, answers.Gone},
		{driver.ErrInvalid, answers.Invalid},
		{driver.ErrDenied, answers.Denied},
		{driver.ErrUnable, answers.Unable},
		{driver.ErrRefused, answers.Refused},
		{rows.ErrConflict, answers.Conflict},
		{driver.ErrNotExecuted, answers.Later},
	} {
		if errors.Is(err, of.is) {
			return of.meaning
		}
	}
	return answers.Unknown
}
