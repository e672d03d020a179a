package cli

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
	"github.com/holdfast-go/holdfast/internal/must"
)

// TestMain makes the test binary serve as the program itself, where a test needs another
// process.
func TestMain(m *testing.M) {
	if os.Getenv("HOLDFAST_TEST_MAIN") == "1" {
		os.Exit(Main())
	}
	must.HearSignals(procgroup.Signals()...)
	// A client that lost its server wants to look for a cluster for up to a second;
	// rueidis offers no way to wait for that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
