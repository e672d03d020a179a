package await

import (
	"os"
	"testing"
)

// NotShort skips a test if the flag -short is set. `make test` sets this flag. The parameter
// `why` says what the test costs.
func NotShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why + "; run without -short")
	}
}

// Nightly skips a test unless `make nightly` runs it. The parameter `why` says what the test
// costs.
func Nightly(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("HOLDFAST_NIGHTLY") == "" {
		t.Skip(why + "; make nightly runs it")
	}
}
