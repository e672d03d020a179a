package judge

import (
	"slices"
	"testing"
	"time"
)

// A name is free with a waiter from the end of the last hold, or from the call of the waiter,
// until the next hold begins or the last waiter gives up.
func TestFree(t *testing.T) {
	for name, test := range map[string]struct{ holds, waits, want []Span }{
		"nobody waits":                    {[]Span{{0, 10}, {20, 30}}, nil, nil},
		"nobody holds":                    {nil, []Span{{5, 9}}, []Span{{5, 9}}},
		"the next one gets it":            {[]Span{{0, 10}, {12, 30}}, []Span{{5, 12}}, []Span{{10, 12}}},
		"it was called later":             {[]Span{{0, 10}, {20, 30}}, []Span{{15, 20}}, []Span{{15, 20}}},
		"it gives up":                     {[]Span{{0, 10}}, []Span{{5, 40}}, []Span{{10, 40}}},
		"it gives up before the release":  {[]Span{{0, 10}}, []Span{{5, 9}}, nil},
		"another takes it in between":     {[]Span{{0, 10}, {14, 15}, {20, 30}}, []Span{{5, 20}}, []Span{{10, 14}, {15, 20}}},
		"holds overlap while Unlock runs": {[]Span{{0, 10}, {8, 15}}, []Span{{5, 8}, {9, 15}}, nil},
		"one waits, then another":         {[]Span{{0, 10}, {30, 40}}, []Span{{5, 15}, {14, 30}}, []Span{{10, 30}}},
		"a pause between two waiters":     {[]Span{{0, 10}, {30, 40}}, []Span{{5, 15}, {20, 30}}, []Span{{10, 15}, {20, 30}}},
		"in any order":                    {[]Span{{30, 40}, {0, 10}}, []Span{{14, 30}, {5, 15}}, []Span{{10, 30}}},
	} {
		if got := Free(test.holds, test.waits); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestSpans(t *testing.T) {
	var spans []Span
	for _, s := range []Span{{0, 10}, {5, 12}, {14, 20}, {13, 15}, {30, 40}, {25, 29}} {
		spans = Add(spans, s, 2)
	}
	if want := []Span{{0, 20}, {25, 40}}; !slices.Equal(spans, want) {
		t.Errorf("added: got %v, want %v", spans, want)
	}
	if got, want := Union([]Span{{30, 40}, {0, 10}, {10, 12}, {5, 7}}), []Span{{0, 12}, {30, 40}}; !slices.Equal(got, want) {
		t.Errorf("union: got %v, want %v", got, want)
	}
	if got, want := (Span{5, 35}).Without([]Span{{0, 10}, {12, 14}, {30, 40}}), 18*time.Nanosecond; got != want {
		t.Errorf("without: got %v, want %v", got, want)
	}
}
