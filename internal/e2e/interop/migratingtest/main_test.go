package migratingtest

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
)

// TestMain lets all tests run at once: they do little but wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}
