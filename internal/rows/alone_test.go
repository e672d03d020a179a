package rows

import (
	"testing"
	"testing/synctest"
	"time"
)

// A name is wanted by one client alone from a grant on, for a minute, but not within a second after
// another client was seen.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Alone
		is := func(when string, want bool) {
			t.Helper()
			if a.Is("job") != want {
				t.Errorf("%s: got %v, want %v", when, !want, want)
			}
		}
		is("at first", false)
		a.Granted("job")
		is("granted", true)
		a.Shared("job")
		is("another client was seen", false)
		a.Granted("job")
		is("granted beside another client", false)
		time.Sleep(sharedFor)
		is("a second later", true)
		a.Granted("other")
		time.Sleep(aloneFor)
		is("not granted for a minute", false)
	})
}

// A Recent that is full forgets all names when a new one comes, and none for one that it has.
func TestRecentIsFull(t *testing.T) {
	var r Recent[int]
	names := make([]string, recentMost)
	for i := range names {
		names[i] = string(rune('a' + i))
		r.Add(names[i], i, time.Minute)
	}
	r.Add(names[3], 5, time.Minute)
	if v, ok := r.Get(names[3]); v != 5 || !ok {
		t.Errorf("got %d, %v for a name that was added again, want 5", v, ok)
	}
	if _, ok := r.Get(names[4]); !ok {
		t.Error("a name was forgotten because another one was added again")
	}
	r.Add("new", 1, time.Minute)
	if _, ok := r.Get(names[4]); ok || len(r.values) > recentMost {
		t.Errorf("got %d names, and an old one: %v, want the new one alone", len(r.values), ok)
	}
}
