package mutextest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

func TestMain(m *testing.M) {
	redisson.Prepare(4)
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}
