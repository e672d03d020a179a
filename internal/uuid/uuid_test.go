package uuid

import (
	"regexp"
	"testing"
	"testing/synctest"
)

func TestNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version4 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		seen := map[string]bool{}
		for range 1000 { // by chance alone, wrong bits would be right in a 64th of them
			id := New()
			if !version4.MatchString(id) || seen[id] {
				t.Fatalf("got %q, want a new UUID of version 4", id)
			}
			seen[id] = true
		}
	})
}
