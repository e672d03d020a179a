package operate

import "testing"

// A pattern without special characters is a prefix, and a star stands for slashes too.
func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, name, begins string
		want                  bool
	}{
		{"", "job", "", true},
		{"jo", "job", "jo", true},
		{"jo", "a/job", "jo", false},
		{"a/*", "a/b/c", "a/", true},
		{"a/*/d", "a/b/c", "a/", false},
		{"[ab]?", "b1", "", true},
		{"[ab]?", "c1", "", false},
		{`a\*`, "a*", "a", true},
		{`a\*`, "ab", "a", false},
	} {
		if got := Matches(test.pattern, test.name); got != test.want {
			t.Errorf("%q: got %v for %q, want %v", test.pattern, got, test.name, test.want)
		}
		if got := Beginning(test.pattern); got != test.begins {
			t.Errorf("%q begins with %q, want %q", test.pattern, got, test.begins)
		}
	}
}
