package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/bench/guard"
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/run"
	"github.com/holdfast-go/holdfast/bench/work"
)

// storesSet is the set of the other stores, of one after the other.
const storesSet = "stores"

// scaleSet is the set in which one number grows. Its plot has curves.
const scaleSet = "scale"

// measure takes the samples of a set, writes them down and shows them. It fails if Holdfast
// could not do a work, or not safely.
func (s settings) measure(ctx context.Context, o run.Options, stdout io.Writer) error {
	stores := []string{string(peer.Redis)}
	if s.set == storesSet {
		stores = strings.Split(s.stores, ",")
	}
	var samples strings.Builder
	var failed []error
	for _, store := range stores {
		failed = append(failed, s.take(ctx, o, peer.Store(store), &samples))
	}
	if s.samples != "" {
		failed = append(failed, write(s.samples, samples.String(), stdout))
	}
	return errors.Join(append(failed, s.show(s.samples, samples.String(), stdout))...)
}

// take starts a store and takes the samples of its set.
func (s settings) take(ctx context.Context, o run.Options, store peer.Store, samples io.Writer) error {
	set, err := s.plan(store)
	if err != nil {
		return err
	}
	o.Stores = []peer.Store{store}
	if store == peer.Redis && o.Settings.Etcd != "" {
		o.Stores = append(o.Stores, peer.Etcd)
	}
	r, err := run.Start(o)
	if err != nil {
		return err
	}
	defer r.Close()
	cells, err := r.Measure(ctx, set)
	return errors.Join(err, report.Write(samples, store, r.Pinned(), cells), failures(cells))
}

// show writes the tables, their figures and the plot of samples.
func (s settings) show(file, samples string, stdout io.Writer) error {
	groups, err := report.Read(strings.NewReader(samples), file)
	if err != nil {
		return err
	}
	var tables, figures, plot strings.Builder
	draw := report.SVG
	if slices.ContainsFunc(groups, func(g *report.Group) bool { return strings.HasPrefix(g.Name, work.ScalePrefix) }) {
		draw = report.Curves
	}
	if err := errors.Join(report.Markdown(&tables, groups), report.CSV(&figures, groups), draw(&plot, groups)); err != nil {
		return err
	}
	for line := range strings.Lines(samples) {
		if left, ok := strings.CutPrefix(line, report.Skipped); ok {
			tables.WriteString("- Left out: " + left)
		}
	}
	err = write(s.markdown, tables.String(), stdout)
	if s.csv != "" {
		err = errors.Join(err, write(s.csv, figures.String(), stdout))
	}
	if s.svg != "" {
		err = errors.Join(err, write(s.svg, plot.String(), stdout))
	}
	return err
}

func write(path, text string, stdout io.Writer) error {
	if path == "-" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // documents, for everybody
}

// failures returns an error if Holdfast could not do a work, or not safely.
func failures(cells []report.Cell) error {
	var failed []string
	for _, c := range cells {
		unsafe := slices.ContainsFunc(c.Samples, func(s report.Sample) bool { return s.Violations > 0 })
		if c.Peer.Role == peer.Ours && (c.Left != "" || unsafe) {
			failed = append(failed, c.Work.Name+" with "+c.Peer.Name)
		}
	}
	if failed != nil {
		return fmt.Errorf("failed or unsafe: %s", strings.Join(failed, ", "))
	}
	return nil
}

// compare checks the costs that do not depend on the machine.
func (s settings) compare(ctx context.Context, o run.Options, stdout io.Writer) error {
	o.Stores = []peer.Store{peer.Redis}
	r, err := run.Start(o)
	if err != nil {
		return err
	}
	defer r.Close()
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
