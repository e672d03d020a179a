// Package report writes samples in the Go benchmark format, reads them again, and makes
// tables and a plot of them.
package report

import (
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchunit"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/work"
)

// Sample is one measurement: what all its processes and the server did.
type Sample struct {
	work.Result

	Shares    []int64       // pairs of each process
	Commands  int64         // that the server executed, in Redis those of scripts included
	Calls     int64         // of scripts
	Accepted  int64         // connections that the server accepted
	ServerCPU time.Duration // of the server
	Foreign   float64       // cores that other programs kept busy
}

// disturbance is from how many foreign cores on a sample counts as disturbed.
const disturbance = 0.15

// Disturbed reports whether other programs had a part in a sample.
func (s Sample) Disturbed() bool { return s.Foreign > disturbance }

// Cell is all samples of one peer at one work.
type Cell struct {
	Work    work.Work
	Peer    peer.Spec
	Samples []Sample
	Left    string // why it could not be measured; "" if it was
}

// name returns the name of the benchmark, without the word Benchmark.
func (c Cell) name() benchfmt.Name {
	return benchfmt.Name(strings.ToUpper(c.Work.Name[:1]) + c.Work.Name[1:] + "/peer=" + c.Peer.Name)
}

// Units that the tables treat in a way of their own: as the Go benchmark format has them
// after it is read.
const (
	perOp      = "sec/op"
	pairRate   = "pairs/s"
	keptRate   = "names/core-s" // names that a core of the client keeps
	p50        = "p50-sec"
	longest    = "longest-sec"
	leastLeft  = "least-left"
	violations = "violations"
	foreign    = "foreign-cores"
	cores      = "client-cores"
	commands   = "commands/op"
	accepted   = "new-connections/s"
)

// Result returns a sample of the Cell as a line of the Go benchmark format.
func (c Cell) Result(s Sample) *benchfmt.Result {
	l := line{&benchfmt.Result{Name: c.name(), Iters: int(max(1, s.Pairs, int64(s.Kept)))}}
	if c.Work.Kind == work.Keep {
		l.kept(s)
	} else {
		l.pairs(c, s)
	}
	l.add(violations, float64(s.Violations))
	l.add(foreign, s.Foreign)
	return l.Result
}

// line is a line that is being made.
type line struct{ *benchfmt.Result }

// add adds a value with four digits behind the point. It leaves out what could not be
// divided.
func (l line) add(unit string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	v = math.Round(v*1e4) / 1e4
	tidied, base := benchunit.Tidy(v, unit)
	l.Values = append(l.Values, benchfmt.Value{Value: tidied, Unit: base, OrigValue: v, OrigUnit: unit})
}

// pairs adds the figures of work that locks and unlocks.
func (l line) pairs(c Cell, s Sample) {
	seconds, pairs := s.Elapsed.Seconds(), float64(s.Pairs)
	l.add("ns/op", float64(s.Elapsed)/pairs)
	l.add(pairRate, pairs/seconds)
	if s.Latency.Count() > 0 {
		l.add("p50-ns", float64(s.Latency.At(0.5)))
		l.add("p99-ns", float64(s.Latency.At(0.99)))
	}
	if k := c.Work.Kind; k != work.Own && k != work.All && k != work.Hear {
		l.shared(c.Work, s)
	}
	if s.Dead.Count() > 0 {
		l.add("dead-p50-ns", float64(s.Dead.At(0.5)))
		l.add("dead-p99-ns", float64(s.Dead.At(0.99)))
		l.add("commands/s", float64(s.Commands)/seconds)
	}
	l.add(commands, float64(s.Commands)/pairs)
	if c.Peer.Store() == peer.Redis {
		l.add("calls/op", float64(s.Calls)/pairs)
	}
	if c.Work.Kind == work.Some {
		l.add(accepted, float64(s.Accepted)/seconds)
	}
	l.add("server-ns/op", float64(s.ServerCPU)/pairs)
	l.add("client-ns/op", float64(s.CPU)/pairs)
	l.add("allocs/op", float64(s.Allocs)/pairs)
	l.add("B/op", float64(s.Bytes)/pairs)
}

// shared adds what work with one name says of fairness.
func (l line) shared(w work.Work, s Sample) {
	if w.Processes > 1 {
		l.add("turns/s", float64(s.Turns)/s.Elapsed.Seconds())
		mean := float64(s.Pairs) / float64(len(s.Shares))
		l.add("least-share", float64(slices.Min(s.Shares))/mean)
		l.add("most-share", float64(slices.Max(s.Shares))/mean)
	}
	l.add("jain", Jain(s.Each))
	l.add("longest-ns", float64(s.Longest))
}

// kept adds the figures of work that keeps names.
func (l line) kept(s Sample) {
	seconds, names := s.Elapsed.Seconds(), float64(s.Kept)
	l.add(keptRate, names*seconds/s.CPU.Seconds())
	l.add(cores, s.CPU.Seconds()/seconds)
	l.add("commands/s", float64(s.Commands)/seconds)
	l.add("commands/name-s", float64(s.Commands)/(names*seconds))
	l.add("goroutines/name", s.Goroutines)
	l.add("B/name", s.Memory)
	if s.LeastLeft > 0 && s.LeastLeft < 1 { // else the peer does not tell
		l.add(leastLeft, s.LeastLeft)
	}
}

// Jain returns Jain's index of fairness: 1 if all have the same, 1/n if one of n
// has everything. Nothing at all is fair.
func Jain(shares []int64) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}
