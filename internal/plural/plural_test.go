package plural_test

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/plural"
)

func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n, want := range map[int]string{0: "0 permits", 1: "1 permit", 2: "2 permits"} {
			if got := plural.Count(n, "permit"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if got := plural.Count(2, "process"); got != "2 processes" {
			t.Errorf("got %s, want 2 processes", got)
		}
	})
}
