package guard

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/run"
	"github.com/holdfast-go/holdfast/bench/work"
)

// job is a work whose figures are compared.
type job struct {
	work  string   // its name
	peers string   // what the names of the peers begin with
	pairs int      // how many are done; 0 for a work that keeps names
	keep  []string // the keys of the figures that do not depend on the machine
}

// jobs returns every job. The reads of some works depend on the machine: a long answer may
// arrive in pieces, and one read may find several answers. With AsyncUnlock, the next Lock may
// travel with the release or behind it.
func jobs() []job {
	calls := []string{"redis_commands", "script_calls", "goroutine_starts"}
	short := slices.Concat(calls, []string{"writes"})
	pair := slices.Concat(short, []string{"allocs", "bytes", reads})
	alone := slices.Concat(pair, []string{"goroutine_runs"})
	return []job{
		{"own-1", "holdfast-rueidis", 2000, alone},
		{"own-1", "holdfast-goredis", 2000, alone},
		{"own-1", "holdfast-async-", 2000, slices.Concat(short, []string{"allocs"})},
		{"one-16", "holdfast-", 10000, short},
		{"all-2", "holdfast-", 1000, pair},
		{"all-100", "holdfast-", 100, slices.Concat(calls, []string{"allocs"})},
		{"keep-10000", "holdfast-", 0, []string{"goroutines"}},
	}
}

// Measure takes the figures of Holdfast with both of its clients.
func Measure(ctx context.Context, r *run.Runner) (Table, error) {
	t := Table{}
	for _, j := range jobs() {
		i := slices.IndexFunc(work.List(), func(w work.Work) bool { return w.Name == j.work })
		w := work.List()[i]
		for _, p := range peer.Specs() {
			if !strings.HasPrefix(p.Name, j.peers) || !w.Suits(p) {
				continue
			}
			sample, err := measure(ctx, r, w, p, j.pairs)
			if err != nil {
				return nil, fmt.Errorf("%s with %s: %w", w.Name, p.Name, err)
			}
			t[w.Name+"/"+p.Name] = j.figures(sample)
		}
	}
	return t, nil
}

func measure(ctx context.Context, r *run.Runner, w work.Work, p peer.Spec, pairs int) (report.Sample, error) {
	size := run.Size{Pairs: pairs}
	if pairs == 0 {
		size.Sample = 100 * time.Millisecond
	}
	sample, err := r.Sample(ctx, w, p, size)
	if err == nil && sample.Violations > 0 {
		err = fmt.Errorf("%d holders too many, or locks lost", sample.Violations)
	}
	return sample, err
}

// figures returns those that the job keeps. Where there are no reads, nothing was counted.
func (j job) figures(s report.Sample) Figures {
	got := Figures{}
	for _, f := range figures() {
		if slices.Contains(j.keep, f.key) && (!f.linux || s.Reads > 0) {
			got[f.key] = f.of(s) / float64(max(1, s.Pairs))
		}
	}
	if n, ok := got[reads]; ok {
		got[reads] = most(n)
	}
	return got
}

// most returns how many reads a pair needs at most. A read that finds nothing waits, and is
// done once more. If the process or the server was kept waiting, an answer is there at once,
// and some pairs need fewer.
func most(reads float64) float64 { return math.Ceil(reads - 0.3) }
