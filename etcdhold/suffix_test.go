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

// keys are the suffixes of lease 1 in a test.
type keys struct {
	*testing.T
	suffixes
}

// using returns keys after each of the claims has got a key of "job".
func using(t *testing.T, ids ...string) *keys {
	t.Helper()
	s := &keys{T: t}
	s.reset(1)
	for i, want := range []string{first, second, third}[:len(ids)] {
		s.put(ids[i], want)
	}
	return s
}

// put makes a claim put its key, which must have that suffix.
func (s *keys) put(id, want string) {
	s.Helper()
	s.endPut(s.has(id, 0, want), true, nil)
}

// has begins a call, which must get that suffix.
func (s *keys) has(id string, from int, want string) use {
	s.Helper()
	u := s.begin(1, "job", id, from)
	if u.text != want {
		s.Fatalf("the suffix of %s: got %s, want %s", id, u.text, want)
	}
	return u
}

// remove removes the key of a claim.
func (s *keys) remove(id string) { s.endRemove(s.begin(1, "job", id, -1), nil) }

func TestSuffixesAreUsedAgain(t *testing.T) {
	s := using(t, "a", "b")
	s.put("b", second)
	if got := s.begin(1, "other", "a", 0); got.text != first {
		t.Errorf("the suffix of another name: got %s, want %s", got.text, first)
	}
	s.remove("a")
	s.put("c", first)
	s.remove("b")
	s.remove("c")
	s.has("a", -1, "a") // without a key: its ID
	if len(s.byName["job"]) > 0 {
		t.Errorf("after all releases: got %v, want nothing", s.byName)
	}
}

// A call of a lease that has ended changes nothing of the next one.
func TestSuffixesOfAnotherLease(t *testing.T) {
	s := using(t, "a")
	late := s.begin(1, "job", "b", 0)
	s.reset(2)
	now := s.begin(2, "job", "c", 0)
	if now.text != first {
		t.Errorf("the suffix after a new lease: got %s, want %s", now.text, first)
	}
	s.endPut(now, true, nil)
	if got := s.begin(1, "job", "d", 0); got.text != "d" {
		t.Errorf("the suffix for a lease that has ended: got %s, want the ID", got.text)
	}
	s.endRemove(late, nil)
	s.endRemove(s.begin(1, "job", "c", -1), nil)
	if id, ok := s.claimOf(2, "job", first); id != "c" || !ok {
		t.Errorf("the claim with the suffix: got %q, %v, want c", id, ok)
	}
}

// Etcd may still execute a call without an answer, so no other claim gets its key.
func TestSuffixOfACallWithoutAnAnswer(t *testing.T) {
	lost := errors.New("the answer was lost")
	for call, fail := range map[string]func(s *keys, u use){
		"Enqueue": func(s *keys, u use) { s.endPut(u, false, lost) },
		"Share":   func(s *keys, u use) { s.endShare(u, lost) },
		"Remove":  func(s *keys, u use) { s.endRemove(u, lost) },
	} {
		t.Run(call, func(t *testing.T) {
			s := using(t, "a")
			fail(s, s.has("a", 0, first))
			s.endPut(s.has("a", 0, first), false, nil) // of another Try, whose answer does not say what becomes of the first call
			s.has("a", -1, first)
			s = using(t, "a")
			fail(s, s.has("a", 0, first))
			s.remove("a")
			s.put("b", second)
			if id, ok := s.claimOf(1, "job", first); id != first || !ok {
				t.Errorf("a key that the call makes: got %q, %v, want one of no claim", id, ok)
			}
		})
	}
}

// A call that is under way when the key is removed may reach etcd after that.
func TestSuffixOfACallUnderWay(t *testing.T) {
	for call, end := range map[string]func(s *keys, u use){
		"Share":  func(s *keys, u use) { s.endShare(u, nil) },
		"Remove": func(s *keys, u use) { s.endRemove(u, nil) },
	} {
		t.Run(call, func(t *testing.T) {
			s := using(t, "a")
			late := s.has("a", -1, first)
			s.remove("a")
			s.put("b", second)
			end(s, late)
			s.put("c", first)
		})
	}
}

func TestSuffixOfACallThatWasNotSent(t *testing.T) {
	unavailable := unsent.Error(errors.New("no connection"))
	s := using(t)
	for range 3 {
		s.endPut(s.has("a", 0, first), false, unavailable)
	}
	if len(s.byName) > 0 {
		t.Errorf("got %v, want nothing", s.byName)
	}
	s = using(t, "a")
	s.endRemove(s.has("a", -1, first), unavailable)
	s.has("a", -1, first)
}

// A key that was listed and has been released since belongs to no claim: the next claim may
// have put it again.
func TestClaimOfASuffix(t *testing.T) {
	s := using(t, "a", "b", "c")
	s.remove("b")
	for text, want := range map[string]string{first: "a", second: "", third: "c", "0000000000000003": "", "0a96690245b9a443": "", "x": ""} {
		if id, ok := s.claimOf(1, "job", text); id != want || ok != (want != "") {
			t.Errorf("the claim with suffix %s: got %q, %v, want %q", text, id, ok, want)
		}
	}
	if id, ok := s.claimOf(2, "job", first); ok {
		t.Errorf("the claim of another lease: got %q", id)
	}
}
