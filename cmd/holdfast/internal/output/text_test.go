package output

import "testing"

func TestWrap(t *testing.T) {
	const text = "one two\nthree four five\n\n  a table   of words\n  and more\nsix seven"
	const want = "one two three\nfour five\n\n  a table   of words\n  and more\nsix seven"
	if got := Wrap(text, 13); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Wrap("a verylongwordindeed b", 8); got != "a\nverylongwordindeed\nb" {
		t.Errorf("got %q, want the long word on a line of its own", got)
	}
}
