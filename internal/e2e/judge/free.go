package judge

import (
	"cmp"
	"slices"
	"time"
)

// Span is a time between two instants, in wall clock nanoseconds.
type Span struct{ From, To int64 }

// Duration returns how long s is.
func (s Span) Duration() time.Duration { return time.Duration(s.To - s.From) }

// Without returns the length of s without the parts that it shares with others, which are a
// Union.
func (s Span) Without(others []Span) time.Duration {
	left := s.Duration()
	for _, o := range others {
		if from, to := max(s.From, o.From), min(s.To, o.To); from < to {
			left -= time.Duration(to - from)
		}
	}
	return left
}

// Union returns the same times in order. No span in the result touches another.
func Union(spans []Span) (all []Span) {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range spans {
		if n := len(all); n > 0 && s.From <= all[n-1].To {
			all[n-1].To = max(all[n-1].To, s.To)
			continue
		}
		all = append(all, s)
	}
	return all
}

// Add adds s to spans that one process reports in about the order of time. A gap that is not
// longer than grain is closed: so a process that takes a lock a million times reports a few
// spans.
func Add(spans []Span, s Span, grain time.Duration) []Span {
	if n := len(spans); n > 0 && s.From <= spans[n-1].To+int64(grain) && s.To+int64(grain) >= spans[n-1].From {
		last := &spans[n-1]
		last.From, last.To = min(last.From, s.From), max(last.To, s.To)
		return spans
	}
	return append(spans, s)
}

// Free returns the times in which nobody held a name although somebody waited for it. A hold
// begins when Lock has returned, and ends when Unlock has. A wait begins when Lock is called,
// and ends when it has returned, with a lock or without.
func Free(holds, waits []Span) (free []Span) {
	holds = Union(holds)
	for _, w := range Union(waits) {
		for len(holds) > 0 && holds[0].To <= w.From {
			holds = holds[1:]
		}
		from := w.From
		for _, h := range holds {
			if h.From >= w.To {
				break
			}
			if h.From > from {
				free = append(free, Span{from, h.From})
			}
			from = h.To
		}
		if from < w.To {
			free = append(free, Span{from, w.To})
		}
	}
	return free
}
