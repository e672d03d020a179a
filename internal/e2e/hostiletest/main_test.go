package hostiletest

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/must"
)

// folder has the program that is tested.
var folder string

func TestMain(m *testing.M) {
	must.HearSignals(os.Interrupt)
	var err error
	if folder, err = os.MkdirTemp("", "holdfast-hostile-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(folder)
		os.Exit(status)
	}))
}
