package guard

import (
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func allocs(v float64) Figures { return Figures{"allocs": v} }

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name          string
		got, want     Table
		worse, better string
	}{
		{"equal", Table{"a": allocs(8)}, Table{"a": allocs(8)}, "", ""},
		{"within its slack", Table{"a": allocs(8.6)}, Table{"a": allocs(8)}, "", ""},
		{"worse", Table{"a": allocs(9)}, Table{"a": allocs(8)}, "a: 9.00 allocations, want at most 8.00", ""},
		{"better", Table{"a": allocs(7)}, Table{"a": allocs(8)}, "", "a: 7.00 allocations, down from 8.00"},
		{"not measured", Table{}, Table{"a": allocs(8)}, "a: was not measured", ""},
		{"figure not measured", Table{"a": {}}, Table{"a": allocs(8)}, "a: allocations were not measured", ""},
		{"without a bound", Table{"a": allocs(8)}, Table{}, "a: is measured and has no bound", ""},
		{"figure without a bound", Table{"a": allocs(8)}, Table{"a": {}}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			worse, better := Compare(test.got, test.want)
			if got := strings.Join(worse, "; "); got != test.worse {
				t.Errorf("got worse %q, want %q", got, test.worse)
			}
			if got := strings.Join(better, "; "); got != test.better {
				t.Errorf("got better %q, want %q", got, test.better)
			}
		})
	}
}

// One more of each figure is seen in a pair, however little of it there was.
func TestCompareSeesEveryFigure(t *testing.T) {
	for _, f := range figures() {
		most := map[string]float64{"bytes": 600, "goroutine_runs": 4}[f.key] // what must be seen; 1 elsewhere
		got, want := Table{"a": {f.key: 4 + max(most, 1)}}, Table{"a": {f.key: 4}}
		if worse, _ := Compare(got, want); len(worse) != 1 {
			t.Errorf("%s: got %q, want it to be worse", f.key, worse)
		}
	}
}

// Each job is a work of the list, and its figures are those of the table.
func TestJobs(t *testing.T) {
	for _, j := range jobs() {
		if !slices.ContainsFunc(work.List(), func(w work.Work) bool { return w.Name == j.work }) {
			t.Errorf("there is no work %s", j.work)
		}
		var s report.Sample
		s.Pairs, s.Allocs, s.Bytes, s.Starts, s.Runs, s.Reads, s.Writes = 2, 2, 2, 2, 2, 2, 2
		s.Commands, s.Calls, s.Goroutines = 2, 2, 2
		got, want := j.figures(s), Figures{}
		for _, key := range j.keep {
			want[key] = 1
		}
		if runtime.GOOS == "linux" && !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", j.work, got, want)
		}
		s.Reads = 0
		if got := j.figures(s); got["reads"]+got["writes"] != 0 {
			t.Errorf("%s: got %v, want no reads and writes where nothing was counted", j.work, got)
		}
	}
}

// An answer that was there at once saves a read, and does not change what a pair needs at most.
func TestMost(t *testing.T) {
	for got, want := range map[float64]float64{3.5: 4, 4: 4, 4.02: 4, 4.5: 5, 5: 5} {
		if n := most(got); n != want {
			t.Errorf("got %v for %v reads, want %v", n, got, want)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.json")
	want := Table{"a": allocs(8.12), "b": {}}
	if err := (Table{"a": allocs(8.1234), "b": {}}).Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	if _, err := Load(path + "x"); err == nil {
		t.Fatal("got no error for a file that is not there")
	}
}
