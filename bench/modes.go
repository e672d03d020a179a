package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/guard"
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/run"
)

// measure takes the samples of a set and writes the tables and the plot. It fails
// if Holdfast failed, or let in too many.
func (s settings) measure(ctx context.Context, r *run.Runner, stdout io.Writer) error {
	set, err := s.plan()
	if err != nil {
		return err
	}
	begun := time.Now()
	cells, err := r.Measure(ctx, set)
	if err != nil {
		return err
	}
	groups := report.Groups(cells)
	var text strings.Builder
	text.WriteString(preface(r, set, time.Since(begun)))
	text.WriteString("Left out:\n\n")
	for _, m := range peer.Missing() {
		fmt.Fprintf(&text, "- %s\n", m)
	}
	text.WriteString("\n")
	if err := report.Markdown(&text, groups); err != nil {
		return err
	}
	if err := write(s.markdown, text.String(), stdout); err != nil {
		return err
	}
	if s.svg != "" {
		var plot strings.Builder
		if err := report.SVG(&plot, groups); err != nil {
			return err
		}
		if err := write(s.svg, plot.String(), stdout); err != nil {
			return err
		}
	}
	return failures(groups)
}

// storesSet is the set that has servers of its own.
const storesSet = "stores"

// measureStores takes the samples of the stores other than Redis, of one after the other,
// and writes the tables. It fails as measure does.
func (s settings) measureStores(ctx context.Context, o run.Options, stdout io.Writer) error {
	var text strings.Builder
	var all []report.Group
	for name := range strings.SplitSeq(s.stores, ",") {
		groups, err := s.measureStore(ctx, o, peer.Store(name), &text)
		if err != nil {
			return err
		}
		all = append(all, groups...)
	}
	return errors.Join(write(s.markdown, text.String(), stdout), failures(all))
}

// measureStore starts a store and takes the samples of its peers.
func (s settings) measureStore(ctx context.Context, o run.Options, store peer.Store, text io.Writer) ([]report.Group, error) {
	set, err := s.narrow(run.Stores(store))
	if err != nil {
		return nil, err
	}
	o.Stores = []peer.Store{store}
	r, err := run.Start(o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	begun := time.Now()
	cells, err := r.Measure(ctx, set)
	if err != nil {
		return nil, err
	}
	groups := report.Groups(cells)
	fmt.Fprintf(text, "## %s\n\n%s", store, preface(r, set, time.Since(begun)))
	return groups, report.Markdown(text, groups)
}

// preface says how it was measured.
func preface(r *run.Runner, set run.Set, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured with %s on %s/%s: %s. Samples of each cell: %d, by turns, each in processes of its own; "+
		"medians; spread is the distance from the slowest to the fastest. It took %s.\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, r.Pinned(), set.Repeats, took.Round(time.Second))
	return b.String()
}

func write(path, text string, stdout io.Writer) error {
	if path == "-" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // documents, for everybody
}

// failures returns an error if Holdfast could not do a work, or not safely.
func failures(groups []report.Group) error {
	var failed []string
	for _, g := range groups {
		for _, row := range g.Rows {
			if row.Cell.Peer.Role == peer.Ours && (row.Cell.Left != "" || row.Summary.Violations > 0) {
				failed = append(failed, g.Name+" with "+row.Cell.Peer.Name)
			}
		}
	}
	if failed != nil {
		return fmt.Errorf("failed or unsafe: %s", strings.Join(failed, ", "))
	}
	return nil
}

// compare checks the costs that do not depend on the machine.
func (s settings) compare(ctx context.Context, r *run.Runner, stdout io.Writer) error {
	got, err := guard.Measure(ctx, r)
	if err != nil {
		return err
	}
	if s.update {
		return got.Save(s.guard)
	}
	want, err := guard.Load(s.guard)
	if err != nil {
		return err
	}
	worse, better := guard.Compare(got, want)
	for _, line := range worse {
		fmt.Fprintln(stdout, "worse: ", line)
	}
	for _, line := range better {
		fmt.Fprintln(stdout, "better:", line)
	}
	if len(worse) > 0 {
		return fmt.Errorf("%d figures are worse than in %s", len(worse), s.guard)
	}
	fmt.Fprintf(stdout, "%d works cost no more than %s says\n", len(want), s.guard)
	if len(better) > 0 {
		fmt.Fprintln(stdout, "Write the better ones down with -check -update.")
	}
	return nil
}
