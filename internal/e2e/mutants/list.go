package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is a small change of one file, and the test that is to notice it.
type mutant struct {
	name     string
	place    string // a file, or the folder of a package
	old, new string
	where    string // sim, test or e2e
	pkg, run string // a package, and which of its tests
	alive    string // why no test notices it; "" if one does
}

// parse reads a list: mutants with an empty line between them, and comments.
func parse(text string) (all []mutant, err error) {
	seen := map[string]bool{}
	for block := range strings.SplitSeq(text, "\n\n") {
		m, err := parseOne(block)
		switch {
		case err != nil:
			return nil, err
		case m.name == "": // comments
			continue
		case m.place == "" || m.old == "" || m.old == m.new || m.pkg == "":
			return nil, fmt.Errorf("mutant %s: a place, a change or a test is missing", m.name)
		case seen[m.name]:
			return nil, fmt.Errorf("mutant %s: there are two", m.name)
		}
		seen[m.name] = true
		all = append(all, m)
	}
	return all, nil
}

func parseOne(block string) (m mutant, err error) {
	var old, changed []string
	for line := range strings.SplitSeq(block, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '-':
			old = append(old, line[1:])
		case line[0] == '+':
			changed = append(changed, line[1:])
		case word == "mutant":
			m.name, m.place, _ = strings.Cut(rest, " ")
		case word == "sim" || word == "test" || word == "e2e":
			m.where = word
			m.pkg, m.run, _ = strings.Cut(rest, " ")
		case word == "alive":
			m.alive = rest
		default:
			return m, fmt.Errorf("mutant %s: %q is not understood", m.name, line)
		}
	}
	m.old, m.new = strings.Join(old, "\n"), strings.Join(changed, "\n")
	return m, nil
}

// find returns the file with the text that the mutant replaces, as a path below the folder root, and
// the whole text of that file. The text of the mutant must be there once. If the place of the mutant
// is a folder, the text must be once in all of the Go files there that are no tests.
func (m *mutant) find(root string) (file, text string, err error) {
	place := filepath.Join(root, filepath.FromSlash(m.place))
	info, err := os.Stat(place)
	if err != nil {
		return "", "", err
	}
	files := []string{filepath.FromSlash(m.place)}
	if info.IsDir() {
		all, err := filepath.Glob(filepath.Join(place, "*.go"))
		if err != nil {
			return "", "", err
		}
		files = nil
		for _, path := range all {
			if !strings.HasSuffix(path, "_test.go") {
				files = append(files, filepath.Join(filepath.FromSlash(m.place), filepath.Base(path)))
			}
		}
	}
	found := 0
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			return "", "", err
		}
		if n := strings.Count(string(content), m.old); n > 0 {
			file = f
			text = string(content)
			found += n
		}
	}
	if found != 1 {
		return "", "", fmt.Errorf("does not apply: its text is in %s %d times, want once", m.place, found)
	}
	return file, text, nil
}

// choose returns the mutants whose names begin with only, and of these those of a part:
// with 3/10 the third, the thirteenth and so on. 13/10 is the same as 3/10.
func choose(all []mutant, only, part string) (chosen []mutant, err error) {
	at, of := 0, 1
	if part != "" {
		if _, err := fmt.Sscanf(part, "%d/%d", &at, &of); err != nil || of < 1 || at < 0 {
			return nil, fmt.Errorf("a part is 3/10, not %q", part)
		}
	}
	n := 0
	for _, m := range all {
		if !strings.HasPrefix(m.name, only) {
			continue
		}
		if n++; n%of == at%of {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no mutant is named %s…, or the part is empty", only)
	}
	return chosen, nil
}
