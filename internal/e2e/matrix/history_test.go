package matrix

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// history is what happened in a cell, as the clients saw it.
type history struct {
	mu      sync.Mutex
	beliefs []*belief
	seen    map[byte]bool // letters of outcome
}

// belief is the time in which one of them thinks that it holds the lock.
type belief struct {
	token      uint64
	begin, end time.Time // end is zero while it lasts
}

func (h *history) begin(token uint64, at time.Time) *belief {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &belief{token: token, begin: at}
	h.beliefs = append(h.beliefs, b)
	return b
}

// granted begins the belief of another process.
func (h *history) granted(e judge.Event) *belief { return h.begin(e.Token, time.Unix(0, e.At)) }

// end ends a belief, once.
func (h *history) end(b *belief, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.end.IsZero() {
		b.end = at
	}
}

// note records a letter.
func (h *history) note(letter byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[byte]bool{}
	}
	h.seen[letter] = true
}

// swept returns what is wrong with the beliefs. Each of them keeps out all others.
func (h *history) swept() judge.Sweep {
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []judge.Event
	tokenless := true
	for i, b := range h.beliefs {
		op, from := int64(i), b.begin.UnixNano()
		events = append(
			events, judge.Event{What: judge.Called, Op: op, At: from, Name: "the lock", Side: judge.Exclusive},
			judge.Event{What: judge.Granted, Op: op, At: from, Token: b.token},
		)
		if !b.end.IsZero() { // who released at once has held it, too
			events = append(events, judge.Event{What: judge.Unlock, Op: op, At: max(b.end.UnixNano(), from+1)})
		}
		tokenless = tokenless && b.token == 0
	}
	return judge.New(events).Check(judge.Rules{Tokenless: tokenless})
}

// overlaps returns the pairs of beliefs that were there at the same time.
func (h *history) overlaps() []*judge.Violation {
	return slices.DeleteFunc(h.swept().Violations, func(v *judge.Violation) bool { return v.Kind != judge.Overlap })
}

// tokens checks that each grant has a larger token than those that ended, or
// began, before it.
func (h *history) tokens() error {
	swept := h.swept()
	swept.Violations = slices.DeleteFunc(swept.Violations, func(v *judge.Violation) bool { return v.Kind == judge.Overlap })
	return swept.Err()
}

// outcome returns the letters of what happened.
func (h *history) outcome() outcome {
	overlaps := len(h.overlaps()) > 0
	h.mu.Lock()
	defer h.mu.Unlock()
	var o []byte
	for _, letter := range []byte(letters) {
		if h.seen[letter] || letter == 'U' && overlaps {
			o = append(o, letter)
		}
	}
	return outcome(cmp.Or(string(o), "A"))
}

// open counts the beliefs that last.
func (h *history) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, b := range h.beliefs {
		if b.end.IsZero() {
			n++
		}
	}
	return n
}

// judge compares what happened with what had to. Where two held the lock at the
// same time, a resource must have been able to tell them apart.
func (h *history) judge(t testing.TB, c cell) {
	t.Helper()
	if n := h.open(); n != 0 {
		t.Errorf("%d locks are still held at the end", n)
	}
	if got := h.outcome(); got != c.want {
		t.Errorf("outcome: got %s, want %s; two holders at the same time: %d", got, c.want, len(h.overlaps()))
	}
	if err := h.tokens(); err != nil {
		breach(t, "%v", err)
	}
	var guard fence.Guard
	for _, found := range h.overlaps() {
		older, newer := found.A.Token, found.B.Token
		if newer == 0 && (c.on == quorum5 || c.kind == plain) {
			continue // these have no tokens
		}
		write := func() error { return nil }
		if err := guard.Do("resource", newer, write); err != nil {
			breach(t, "the resource refused the newer holder: %v", err)
		}
		if err := guard.Do("resource", older, write); !errors.Is(err, fence.ErrStale) {
			breach(t, "the resource answered the older holder %v, want ErrStale", err)
		}
	}
}

// The judge itself.
func TestHistory(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, tc := range []struct {
		name    string
		beliefs []belief
		seen    string
		want    outcome
		rising  bool
	}{
		{"nothing", nil, "", "A", true},
		{"one after the other", []belief{{1, at(0), at(5)}, {2, at(6), at(7)}}, "", "A", true},
		{"both", []belief{{1, at(0), at(5)}, {2, at(4), at(7)}}, "L", "LU", true},
		{"both, the older ends last", []belief{{2, at(4), at(5)}, {1, at(0), at(7)}}, "", "U", true},
		{"never ends", []belief{{1, at(0), time.Time{}}, {2, at(4), at(7)}}, "", "U", true},
		{"the same token", []belief{{2, at(0), at(3)}, {2, at(4), at(7)}}, "EW", "EW", false},
		{"a smaller token", []belief{{2, at(0), at(3)}, {1, at(4), at(7)}}, "", "A", false},
		{"no tokens", []belief{{0, at(0), at(3)}, {0, at(4), at(7)}}, "", "A", true},
	} {
		var h history
		for _, b := range tc.beliefs {
			h.beliefs = append(h.beliefs, &b)
		}
		for _, letter := range []byte(tc.seen) {
			h.note(letter)
		}
		if got := h.outcome(); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
		if err := h.tokens(); (err == nil) != tc.rising {
			t.Errorf("%s: got %v, want rising tokens: %v", tc.name, err, tc.rising)
		}
	}
	if strings.Trim("AELWU", letters) != "" {
		t.Error("letters")
	}
}
