package listing

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

func ints(n int) int64 { return int64(n) }

func TestLiteral(t *testing.T) {
	if got, want := literal(`a*b?[c]\^{}`), `a\*b\?\[c\]\\\^{}`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a key holds is shown as text, whatever it holds.
func TestKeysAreShownAsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			value any
			want  admin.Key
			ok    bool
		}{
			{[]any{"string", ints(-1), ints(3), "a\nb"}, admin.Key{Type: "string", Remaining: -time.Millisecond, Value: `a\nb`}, true},
			{[]any{"string", ints(5), ints(900), "\xff\u202e"}, admin.Key{Type: "string", Remaining: 5 * time.Millisecond, Value: `\xff\u202e… (900 bytes)`}, true},
			{[]any{"hash", ints(5), ints(2), []any{"f", "v", "ü", `"`}}, admin.Key{Type: "hash", Remaining: 5 * time.Millisecond, Value: "f → v\nü → \""}, true},
			{[]any{"list", ints(5), ints(9), []any{"a", "b"}}, admin.Key{Type: "list", Remaining: 5 * time.Millisecond, Value: "a\nb\n… (9 in all)"}, true},
			{[]any{"list", ints(5), ints(9), nil}, admin.Key{}, false},
			{[]any{"list", ints(5), ints(9), []any{int64(1)}}, admin.Key{}, false},
			{[]any{"list"}, admin.Key{}, false},
		} {
			got, ok := parseKey(c.value)
			if ok != c.ok || ok && got != c.want {
				t.Errorf("%v: got %+v, %v, want %+v, %v", c.value, got, ok, c.want, c.ok)
			}
		}
	})
}
