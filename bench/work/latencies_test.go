package work

import (
	"encoding/json"
	"testing"
	"time"
)

func TestLatencies(t *testing.T) {
	a, b := NewLatencies(), NewLatencies()
	for i := range 50 {
		a.Add(time.Duration(2*i+1) * time.Microsecond)
		b.Add(time.Duration(2*i+2) * time.Microsecond)
	}
	b.Add(-time.Second)
	b.Add(time.Hour)
	text, err := json.Marshal(Result{Latency: b})
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Dead != nil {
		t.Errorf("got %+v of nothing, want nil", r.Dead)
	}
	sum := (*Latencies)(nil).Merge(a).Merge(r.Latency).Merge(nil)
	if n := sum.Count(); n != 102 {
		t.Fatalf("got %d durations, want 102", n)
	}
	for q, want := range map[float64]time.Duration{0.5: 50 * time.Microsecond, 0.9: 91 * time.Microsecond, 1: longestLatency} {
		if got := sum.At(q); got < want || got > want+want/500 {
			t.Errorf("%v: got %v, want %v", q, got, want)
		}
	}
	if none := (*Latencies)(nil).Merge(nil); none.Count() != 0 || none.At(0.5) != 0 || NewLatencies().At(0.5) != 0 {
		t.Error("nothing has durations")
	}
}

func TestToAddALatencyAllocatesNothing(t *testing.T) {
	l := NewLatencies()
	if n := testing.AllocsPerRun(100, func() { l.Add(time.Millisecond) }); n != 0 {
		t.Fatalf("got %v allocations, want none", n)
	}
}

// One in so many pairs of the sample is recorded, and none of the warm-up.
func TestLatenciesOfPairs(t *testing.T) {
	w := workersOf(t, &lawless{}, Work{Kind: Own, Goroutines: 4})
	if n := w.interval(9); n != 0 {
		t.Errorf("got an interval of %d without a histogram, want 0", n)
	}
	w.latency = NewLatencies()
	for warm, want := range map[int64]int64{0: 1, recorded/4 - 1: 1, recorded / 4: 2, 10 * recorded: 41} {
		if got := w.interval(warm); got != want {
			t.Errorf("%d pairs in the warm-up: got one in %d, want one in %d", warm, got, want)
		}
	}
	done := tally{every: 3}
	for n := range int64(20) {
		if n == 10 {
			w.phase.Store(measuring)
		}
		if err := w.pair(t.Context(), w.tasks[0], n, &done); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.latency.Count(); got != 3 { // 12, 15 and 18
		t.Errorf("got %d latencies of ten pairs, want three", got)
	}
}

func TestLatenciesOfASample(t *testing.T) {
	w := workersOf(t, &lawless{}, Work{Kind: Own, Goroutines: 2})
	w.latency, w.plan.Sample = NewLatencies(), lease/3000
	r, err := w.clock(ready())
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Latency.Count(); n == 0 || n > r.Pairs {
		t.Errorf("got %d latencies of %d pairs", n, r.Pairs)
	}
}
