package etcdhold

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/unsent"
)

const (
	first  = "0000000000000000"
	second = "0000000000000001"
	third  = "0000000000000002"
)

// using is the suffixes of lease 1 after claims have got a key of "job" each.
func using(t *testing.T, ids ...string) *suffixes {
	t.Helper()
	s := new(suffixes)
	for i, want := range []string{first, second, third}[:len(ids)] {
		if got := s.of(1, "job", ids[i], true); got != want {
			t.Fatalf("the suffix of %s: got %s, want %s", ids[i], got, want)
		}
		s.answered(1, "job", ids[i], true, nil)
	}
	return s
}

func TestSuffixesAreUsedAgain(t *testing.T) {
	s := using(t, "a", "b")
	if got := s.of(1, "job", "b", true); got != second {
		t.Errorf("the suffix of b once more: got %s, want %s", got, second)
	}
	if got := s.of(1, "other", "a", true); got != first {
		t.Errorf("the suffix of another name: got %s, want %s", got, first)
	}
	s.removed(1, "job", "a", nil)
	if got := s.of(1, "job", "c", true); got != first {
		t.Errorf("the suffix after a release: got %s, want %s", got, first)
	}
	if got := s.of(1, "job", "a", false); got != "a" {
		t.Errorf("the suffix of a claim without a key: got %s, want its ID", got)
	}
	s.removed(1, "job", "b", nil)
	s.removed(1, "job", "c", nil)
	if len(s.byName["job"]) > 0 {
		t.Errorf("after all releases: got %v, want nothing", s.byName)
	}
	if got := s.of(2, "job", "d", true); got != first {
		t.Errorf("the suffix of another lease: got %s, want %s", got, first)
	}
}

// Etcd may still execute a call without an answer: nobody else gets its key.
func TestSuffixOfACallWithoutAnAnswer(t *testing.T) {
	lost := errors.New("the answer was lost")
	for call, fail := range map[string]func(s *suffixes){
		"Enqueue": func(s *suffixes) { s.answered(1, "job", "a", false, lost) },
		"Share":   func(s *suffixes) { s.answered(1, "job", "a", true, lost) },
		"Remove":  func(s *suffixes) { s.removed(1, "job", "a", lost) },
	} {
		s := using(t, "a")
		fail(s)
		if got := s.of(1, "job", "a", true); got != first {
			t.Errorf("%s: the suffix of the claim itself: got %s, want %s", call, got, first)
		}
		s.answered(1, "job", "a", false, nil) // of a try, which does not say what becomes of the first
		if got := s.of(1, "job", "a", false); got != first {
			t.Errorf("%s: the suffix after another try: got %s, want %s", call, got, first)
		}
		s.removed(1, "job", "a", nil)
		if got := s.of(1, "job", "b", true); got != second {
			t.Errorf("%s: the suffix of the next claim: got %s, want %s", call, got, second)
		}
		if id, ok := s.claim(1, "job", first); id != first || !ok {
			t.Errorf("%s: a key that the call makes: got %q, %v, want one of no claim", call, id, ok)
		}
	}
}

func TestSuffixOfACallThatWasNotSent(t *testing.T) {
	s := using(t)
	for range 3 {
		if got := s.of(1, "job", "a", true); got != first {
			t.Errorf("the suffix: got %s, want %s", got, first)
		}
		s.answered(1, "job", "a", false, unsent.Error(errors.New("no connection")))
	}
	if len(s.byName) > 0 {
		t.Errorf("got %v, want nothing", s.byName)
	}
	s = using(t, "a")
	s.removed(1, "job", "a", unsent.Error(errors.New("no connection")))
	if got := s.of(1, "job", "a", false); got != first {
		t.Errorf("the suffix after a Remove that was not sent: got %s, want %s", got, first)
	}
}

// A key that was listed and is released since belongs to nobody: the next claim may have
// put it again.
func TestClaimOfASuffix(t *testing.T) {
	s := using(t, "a", "b", "c")
	s.removed(1, "job", "b", nil)
	for text, want := range map[string]string{first: "a", second: "", third: "c", "0000000000000003": "", "0a96690245b9a443": "", "x": ""} {
		if id, ok := s.claim(1, "job", text); id != want || ok != (want != "") {
			t.Errorf("the claim with suffix %s: got %q, %v, want %q", text, id, ok, want)
		}
	}
	if id, ok := s.claim(2, "job", first); ok {
		t.Errorf("the claim of another lease: got %q", id)
	}
}
