package report

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Skipped begins the line of a peer that was left out, as go test writes it: the name of the
// benchmark and the reason follow. To readers of the format the line is nothing.
const Skipped = "--- SKIP: Benchmark"

// Write writes every sample of a set as a line of the Go benchmark format. The cores say
// what ran where, for people.
func Write(w io.Writer, store peer.Store, cores string, cells []Cell) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "goos: %s\ngoarch: %s\npkg: github.com/holdfast-go/holdfast/bench\ngo: %s\nstore: %s\ncores: %s\n\n",
		runtime.GOOS, runtime.GOARCH, runtime.Version(), store, cores)
	lines := benchfmt.NewWriter(&text)
	for _, c := range cells {
		for _, s := range c.Samples {
			_ = lines.Write(c.Result(s)) // into memory
		}
		if c.Left != "" {
			fmt.Fprintf(&text, "%s%s: %s\n", Skipped, c.name(), strings.ReplaceAll(c.Left, "\n", " "))
		}
	}
	_, err := text.WriteTo(w)
	return err
}

// Read returns the samples that Write wrote, once or several times, by store and work. It
// fails if a line is not of the format, or names a peer that is not known.
func Read(r io.Reader, file string) (groups []*Group, err error) {
	reader := benchfmt.NewReader(r, file)
	for reader.Scan() {
		switch line := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, line
		case *benchfmt.Result:
			if groups, err = group(groups, line); err != nil {
				return nil, err
			}
		}
	}
	for _, g := range groups {
		g.compare()
	}
	return groups, reader.Err()
}

// group adds a sample to its group, which it makes if it is the first.
func group(groups []*Group, line *benchfmt.Result) ([]*Group, error) {
	base, name, _ := strings.Cut(line.Name.String(), "/peer=")
	p, err := peer.Find(name)
	if err != nil {
		return nil, err
	}
	store, work := peer.Store(line.GetConfig("store")), strings.ToLower(base[:1])+base[1:]
	i := slices.IndexFunc(groups, func(g *Group) bool { return g.Store == store && g.Name == work })
	if i < 0 {
		how := fmt.Sprintf("%s on %s/%s: %s", line.GetConfig("go"), line.GetConfig("goos"), line.GetConfig("goarch"), line.GetConfig("cores"))
		i, groups = len(groups), append(groups, &Group{Store: store, Name: work, How: how})
	}
	groups[i].add(p, line.Values)
	return groups, nil
}
