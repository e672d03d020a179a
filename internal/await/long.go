package await

import (
	"os"
	"testing"
)

// NotShort skips a test with -short, as make test runs: why says what it takes.
func NotShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why + "; run without -short")
	}
}

// Nightly skips a test where make nightly does not run it: why says what it takes.
func Nightly(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("HOLDFAST_NIGHTLY") == "" {
		t.Skip(why + "; make nightly runs it")
	}
}
