package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/run"
	"github.com/holdfast-go/holdfast/bench/work"
)

// job is one work of the check, by numbers and not by time.
type job struct {
	work  work.Work
	pairs int
	keep  func(of func(unit string) *float64) Figures
}

func jobs() []job {
	const lease = peer.Duration(30 * time.Second)
	return []job{
		{
			work.Work{Name: "pair", Kind: work.Own, Processes: 1, Goroutines: 1, TTL: lease},
			2000, func(of func(string) *float64) Figures {
				return Figures{Allocs: of("allocs/op"), Bytes: of("B/op"), Commands: of("commands/op"), Calls: of("calls/op")}
			},
		},
		{
			work.Work{Name: "pair-of-16-waiters", Kind: work.One, Processes: 1, Goroutines: 16, TTL: lease},
			3200, func(of func(string) *float64) Figures {
				return Figures{Commands: of("commands/op"), Calls: of("calls/op")}
			},
		},
		{
			work.Work{Name: "all-100", Kind: work.All, Processes: 1, Goroutines: 1, Names: 100, TTL: lease},
			100, func(of func(string) *float64) Figures {
				return Figures{Allocs: of("allocs/op"), Commands: of("commands/op"), Calls: of("calls/op")}
			},
		},
		{
			work.Work{Name: "keep-2000", Kind: work.Keep, Processes: 1, Goroutines: 1, Names: 2000, TTL: lease},
			0, func(of func(string) *float64) Figures { return Figures{Goroutines: of("goroutines/name")} },
		},
	}
}

// Measure takes the figures of Holdfast with both of its clients.
func Measure(ctx context.Context, r *run.Runner) (Table, error) {
	t := Table{}
	for _, j := range jobs() {
		for _, p := range peer.Specs() {
			if p.Role != peer.Ours || !j.work.Suits(p) {
				continue
			}
			figures, err := j.measure(ctx, r, p)
			if err != nil {
				return nil, fmt.Errorf("%s with %s: %w", j.work.Name, p.Name, err)
			}
			t[j.work.Name+"/"+p.Name] = figures
		}
	}
	return t, nil
}

func (j job) measure(ctx context.Context, r *run.Runner, p peer.Spec) (Figures, error) {
	size := run.Size{Warm: 100 * time.Millisecond, Pairs: j.pairs}
	if j.work.Kind == work.Keep {
		size.Sample = 100 * time.Millisecond
	}
	sample, err := r.Sample(ctx, j.work, p, size)
	if err != nil {
		return Figures{}, err
	}
	if sample.Violations > 0 {
		return Figures{}, fmt.Errorf("%d holders too many, or locks lost", sample.Violations)
	}
	result := report.Cell{Work: j.work, Peer: p}.Result(sample)
	return j.keep(func(unit string) *float64 {
		if v, ok := result.Value(unit); ok {
			return &v
		}
		return nil
	}), nil
}
