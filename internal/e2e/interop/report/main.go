// Command report makes the tables of docs/evidence/redisson.md from a run of the suite:
//
//	go test -json ./internal/e2e/interop/redisson/... | go run ./internal/e2e/interop/report -doc docs/evidence/redisson.md
//
// It prints what failed and fails with it, and also if the document's table of
// results is not that of the run. With -update it writes the tables instead.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.SetOutput(stderr)
	doc := flags.String("doc", "", "the document with the tables")
	update := flags.Bool("update", false, "write the tables into the document")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	r, err := read(stdin, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "report:", err)
		return 1
	}
	if r.failed {
		return 1
	}
	if *doc == "" {
		fmt.Fprint(stdout, r.results(), "\n", r.figures())
		return 0
	}
	if err := r.into(*doc, *update); err != nil {
		fmt.Fprintln(stderr, "report:", err)
		return 1
	}
	fmt.Fprintf(stdout, "%d cases on %s, as %s says\n", len(r.cases), strings.Join(r.versions(), ", "), *doc)
	return 0
}

// into puts the tables into the document, or compares that of the results.
func (r *report) into(path string, update bool) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, results, err := replaced(string(old), "results", r.results())
	if err != nil {
		return err
	}
	if !update {
		if results != r.results() {
			return fmt.Errorf("the table of results in %s is not that of this run; -update writes it. The first line that it lacks: %s", path, difference(results, r.results()))
		}
		return nil
	}
	if text, _, err = replaced(text, "figures", r.figures()); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// difference shows the first line of the run's table that the document has not there.
func difference(document, run string) string {
	lines := strings.Split(document, "\n")
	for i, line := range strings.Split(run, "\n") {
		if i == len(lines) || lines[i] != line {
			return line
		}
	}
	return "it is shorter"
}

// replaced replaces what stands between the marks of a table, and returns also
// what stood there.
func replaced(text, mark, table string) (all, was string, err error) {
	begin, end := "<!-- "+mark+": begin -->\n\n", "\n<!-- "+mark+": end -->"
	before, rest, ok := strings.Cut(text, begin)
	was, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", "", fmt.Errorf("no marks for %s", mark)
	}
	return before + begin + table + end + after, was, nil
}
