package await

import "testing"

// NotShort skips a test with -short, as make test runs: why says what it takes.
func NotShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why + "; run without -short")
	}
}
