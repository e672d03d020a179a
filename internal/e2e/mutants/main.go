// Mutants makes small changes to the library, one at a time, and runs the tests that are to
// notice each. A mutant is a change that some test must fail with: it dies. The list of
// mutants is list.txt, which says how to write one.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	list := flag.String("list", filepath.Join("internal", "e2e", "mutants", "list.txt"), "the list of mutants")
	only := flag.String("only", "", "run the mutants whose names begin so")
	part := flag.String("part", "", "run each tenth mutant, the third of them first: 3/10")
	jobs := flag.Int("j", 2, "how many at the same time")
	flag.Parse()
	if err := run(os.Stdout, ".", *list, *only, *part, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tests the mutants that are chosen, of the code below root, and prints a row for each
// as it ends.
func run(out io.Writer, root, list, only, part string, jobs int) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	all, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	chosen, err := choose(all, only, part)
	if err != nil {
		return err
	}
	root, err = filepath.Abs(root) // an overlay needs that
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	l := laboratory{root: root, temp: temp, sound: map[string]func() (string, error){}}
	var bad []string
	var mu sync.Mutex // of bad, and of what is printed
	var wg sync.WaitGroup
	next := make(chan mutant)
	for range max(jobs, 1) {
		wg.Go(func() {
			for m := range next {
				r := l.test(m)
				mu.Lock()
				fmt.Fprintf(out, "%-32s %-6s %5.1f s  %s\n", m.name, r.fate, r.took.Seconds(), r.text)
				if r.wrong {
					bad = append(bad, m.name)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range chosen {
		next <- m
	}
	close(next)
	wg.Wait()
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d are not as the list says: %s", len(bad), len(chosen), strings.Join(bad, ", "))
	}
	return nil
}
