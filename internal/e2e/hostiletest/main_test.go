package hostiletest

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/must"
)

func TestMain(m *testing.M) {
	must.HearSignals(os.Interrupt)
	goleak.VerifyTestMain(m)
}
