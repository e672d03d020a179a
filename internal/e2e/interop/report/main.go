// Command report makes docs/evidence/redisson.csv from a run of the suite:
//
//	go test -json ./internal/e2e/interop/redisson/... | go run ./internal/e2e/interop/report -file docs/evidence/redisson.csv
//
// It prints what failed and fails with it, and also if the results in the file are not those
// of the run. What the cases observed and measured may differ. With -update it writes the
// file instead.
package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("file", "", "the file with the results, as CSV")
	update := flags.Bool("update", false, "write the file")
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
	switch {
	case *file == "":
		err = csv.NewWriter(stdout).WriteAll(r.rows())
	case *update:
		err = r.write(*file)
	default:
		err = r.check(*file)
	}
	if err != nil {
		fmt.Fprintln(stderr, "report:", err)
		return 1
	}
	if *file != "" {
		fmt.Fprintf(stdout, "%d cases on %s, as %s says\n", len(r.cases), strings.Join(r.versions(), ", "), *file)
	}
	return 0
}

func (r *report) write(path string) error {
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(r.rows()); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// check compares the results in the file with those of the run.
func (r *report) check(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if old, results := resultsOf(rows), r.results(); !slices.EqualFunc(old, results, slices.Equal) {
		return fmt.Errorf("the results in %s are not those of this run; -update writes them. The first row that it lacks: %s", path, difference(old, results))
	}
	return nil
}

// difference shows the first row of the run that the file has not there.
func difference(file, run [][]string) string {
	for i, row := range run {
		if i == len(file) || !slices.Equal(file[i], row) {
			return strings.Join(row, ",")
		}
	}
	return "none, it has more"
}
