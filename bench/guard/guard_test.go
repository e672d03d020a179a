package guard

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func allocs(v float64) Figures { return Figures{Allocs: &v} }

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

// Every figure is compared: one more of each is seen.
func TestCompareSeesEveryFigure(t *testing.T) {
	all := func(v float64) Figures { return Figures{&v, &v, &v, &v, &v} }
	worse, _ := Compare(Table{"a": all(200)}, Table{"a": all(1)})
	if len(worse) != reflect.TypeFor[Figures]().NumField() {
		t.Fatalf("got %q, want a line for each figure", worse)
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
