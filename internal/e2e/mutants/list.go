package main

import (
	"fmt"
	"strings"
)

// mutant is a small change of one file, and the test that is to notice it.
type mutant struct {
	name     string
	file     string
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
		case m.file == "" || m.old == "" || m.old == m.new || m.pkg == "":
			return nil, fmt.Errorf("mutant %s: a file, a change or a test is missing", m.name)
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
			m.name, m.file, _ = strings.Cut(rest, " ")
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
